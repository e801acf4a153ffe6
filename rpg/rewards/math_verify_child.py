"""Runs math-verify for release.py, in a child of the sandbox (sandbox.py)."""

import logging
import os
import signal

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify
from sympy.core.cache import clear_cache

from rpg.rewards.sandbox import confine, held

MEMORY = 1 << 30  # bytes beyond what the imports take
SHOWN = 200  # characters of an answer that are returned
# the release's call: truth as LaTeX, response as plain expression and LaTeX
TRUTH_READERS = [LatexExtractionConfig()]
RESPONSE_READERS = [ExprExtractionConfig(), LatexExtractionConfig()]
START = held()


def answer(truth: str, response: str, seconds: float) -> tuple[bool, str]:
    """Return whether a response is correct, and the text of its parsed answer.

    seconds: of processor time, after which SIGPROF ends the process; math-verify's alarms are off.
    """
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        wanted = parse(f"\\boxed{{{truth}}}", TRUTH_READERS, parsing_timeout=None)  # type: ignore[arg-type]
        parsed = parse(response, RESPONSE_READERS, parsing_timeout=None)  # type: ignore[arg-type]
        right = bool(wanted and parsed) and verify(wanted, parsed, timeout_seconds=None)
    except BaseException:  # noqa: BLE001  # memory or recursion, after which nothing here can be trusted
        os._exit(1)
    signal.setitimer(signal.ITIMER_PROF, 0)
    if held() > START + MEMORY // 2:  # else a MemoryError would make the next verdict wrong
        clear_cache()
    text = next((part for part in reversed(parsed) if isinstance(part, str)), "")
    return right, text[:SHOWN]


def warm_up() -> None:
    """Judge one answer, which fills the parser's caches; then limit the memory, and write no files."""
    logging.disable(logging.CRITICAL)  # math-verify warns that its time limits are off
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    answer("2\\sqrt{3}", "$\\sqrt{12}$", 0)
    confine(MEMORY)
