"""Runs math-verify for release.py, in a child of the sandbox (sandbox.py)."""

import logging
import os

from math_verify import ExprExtractionConfig, LatexExtractionConfig, parse, verify
from sympy.core.cache import clear_cache

SHOWN = 200  # characters of an answer that are returned
# the release's call: truth as LaTeX, response as plain expression and LaTeX
TRUTH_READERS = [LatexExtractionConfig()]
RESPONSE_READERS = [ExprExtractionConfig(), LatexExtractionConfig()]


def answer(response: str, truth: str) -> tuple[bool, str]:
    """Return whether a response is correct, and the text of its parsed answer. math-verify's alarms are off."""
    try:
        wanted = parse(f"\\boxed{{{truth}}}", TRUTH_READERS, parsing_timeout=None)  # type: ignore[arg-type]
        parsed = parse(response, RESPONSE_READERS, parsing_timeout=None)  # type: ignore[arg-type]
        right = bool(wanted and parsed) and verify(wanted, parsed, timeout_seconds=None)
    except BaseException:  # noqa: BLE001  # memory or recursion, after which nothing here can be trusted
        os._exit(1)
    clear_cache()  # else it grows until a MemoryError, which math-verify catches, makes a verdict wrong
    text = next((part for part in reversed(parsed) if isinstance(part, str)), "")
    return right, text[:SHOWN]


def warm_up() -> None:
    """Judge one answer, which loads the parsers."""
    logging.disable(logging.CRITICAL)  # math-verify warns that its time limits are off
    answer("$\\sqrt{12}$", "2\\sqrt{3}")
