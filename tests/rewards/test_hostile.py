"""Adversarial responses for `verified`; math-verify's limits, in threads as in verl."""

import logging
import random
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import pytest
from hostile import KINDS, hostile_responses
from pairs import judge

from rpg.rewards import Score, release

pytestmark = pytest.mark.slow

# Processor time, which a busy machine stretches little; 0.05 s is the longest seen
SLOW, TOO_LONG = 0.25, 1.0
LIMIT = 3.0  # seconds for the library, also on a busy machine
NINES, ROOT = "9^{9^9}", r"\sqrt{5}"  # a comparison that takes sympy minutes


@pytest.mark.parametrize("count", [40 * len(KINDS), pytest.param(10_000, marks=pytest.mark.full)])
def test_no_crash_no_hang_no_growth(count: int) -> None:
    for kind in KINDS:  # loads mpmath, once in a worker's life, and fills caches
        judge(kind(random.Random(0)), "x+1")
    before, slow = psutil.Process().memory_info().data, 0
    for kind, response, truth in hostile_responses(count):
        result, seconds = timed_score(response, truth)
        assert result["score"] == -1.0, (kind, response[:100], truth, result)
        assert len(result["pred"].encode()) <= 4 * 200
        assert seconds < TOO_LONG, (kind, response[:100], seconds)
        slow += seconds > SLOW
    assert slow <= 1 + count // 1000  # Python's own collection of garbage may fall into one
    assert psutil.Process().memory_info().data - before < 50 << 20


def timed_score(response: str, truth: str) -> tuple[Score, float]:
    start = time.process_time()
    result = judge(response, truth)
    return result, time.process_time() - start


HEAVY = (
    r"\sin(x)\cos(y)\tan(z)\ln(w)\sqrt{x+y}e^{x}" * 4,
    r"\arctan(\sinh(x)+\arcsin(y)\arccos(z))" * 4,
    r"\binom{x}{y}\binom{z}{w}(x!)" * 6,
    r"\sqrt{x+\sqrt{y+\sqrt{z+\sqrt{w}}}}" * 5,
    r"\lfloor\frac{x}{2}\rfloor\binom{x}{y}\arcsin(z!)" * 4,
    ",".join(rf"\sqrt{{{n}}}" for n in range(2, 20)),
    ",".join("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMN"),
    r"\cup".join(f"({n},{n}.5)" for n in range(18)),
    "x<1 or " * 25 + "x<1",
    r"x^{19}+\sin(x)\cos(x)\tan(x) = y^{18}\sqrt{x+\sqrt{x}}",
    r"2^{20000} \approx x",
    "e^{e^{e^{x}}}",
    "(" * 95 + "x" + ")" * 95,
    r"\text{" * 30,
    "1 m " * 40,
    "x is " * 40,
)


def test_every_comparison_is_cheap() -> None:
    """Both sides as expensive as their length allows; `verified` runs in this process and must be fast."""
    judge("Answer: 1+x", "x+1")  # loads mpmath
    for truth in HEAVY:
        for answer in HEAVY:
            result, seconds = timed_score(f"Answer: {answer}", truth)
            assert seconds < TOO_LONG, (answer, truth)
            assert result["score"] == -1.0 or answer == truth, (answer, truth)


def test_many_threads_agree() -> None:
    """verl scores in a thread pool; threads must not share mpmath's precision."""
    pairs = [(f"Answer: \\sqrt{{{n}}}+\\sin {n}+x", f"x+\\sin {n}+{n}^{{1/2}}") for n in range(2, 66)]
    with ThreadPoolExecutor(16) as pool:
        verdicts = list(pool.map(lambda pair: judge(*pair)["acc"], pairs))
        wrong = list(pool.map(lambda pair: judge(pair[0], pair[1] + "+1")["acc"], pairs))
    assert verdicts == [1.0] * len(pairs)
    assert wrong == [0.0] * len(pairs)


# math-verify in its sandbox


def is_equal(answer: str, truth: str, time_limit: float = LIMIT) -> bool:
    return release.judge_expression(f"${answer}$", truth, time_limit)[0]


def test_limits_hold_in_threads_and_a_child_is_replaced(caplog: pytest.LogCaptureFixture) -> None:
    """verl scores in a thread pool, where signal.alarm does not work; a bomb or a kill ends one child only."""
    caplog.set_level(logging.ERROR)
    is_equal("1+x", "x+1")  # loads the library

    def score(number: int) -> float:
        pair = (f"{NINES}+{number}", ROOT) if number % 16 == 0 else (f"{number}+x", f"x+{number}")
        return float(is_equal(*pair))

    with ThreadPoolExecutor(16) as pool:
        verdicts = list(pool.map(score, range(32)))
    assert verdicts == [float(number % 16 != 0) for number in range(32)]
    assert not is_equal(r"2^{2^{40}}+x", "x")
    assert is_equal("105+x", "x+105")
    children = [child.process for child in release.sandbox.slots.queue if child]
    assert children
    for child in children:
        child.kill()
        child.wait()
    assert is_equal("107+x", "x+107")


def test_nothing_outlives_a_killed_worker() -> None:
    """Not even a child inside a call, which holds Python's lock."""
    code = (
        "import time; from threading import Thread; from rpg.rewards import release\n"
        "assert release.judge_expression('$1+x$', 'x+1', 10.0)[0]\n"
        "pids = [child.process.pid for child in release.sandbox.slots.queue if child]\n"
        f"call = Thread(target=release.judge_expression, args=('${NINES}$', '\\\\sqrt{{5}}', 600.0))\n"
        "call.start(); time.sleep(0.5); print(*pids, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout
        (child,) = (Path(f"/proc/{pid}") for pid in worker.stdout.readline().split())
        assert is_running(child)
        worker.kill()
    deadline = time.monotonic() + 120
    while is_running(child) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not is_running(child)


def is_running(process: Path) -> bool:
    try:
        return "State:\tZ" not in (process / "status").read_text()  # a zombie only waits for its new parent
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_model_output_is_never_evaluated(tmp_path: Path) -> None:
    marker = tmp_path / "run"
    code = f"open('{marker}','w')"
    for response in (f"Answer: {code}", f"Answer: $ {code} $", f"Answer: 1+{code}", rf"\boxed{{{code}}}"):
        judge(response, r"\sqrt{2}")
        is_equal(response, r"\sqrt{2}")
    assert not marker.exists()
