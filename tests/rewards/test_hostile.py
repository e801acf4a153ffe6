"""Responses made to hang, crash or bloat `verified`; the library's limits, in threads as verl calls it."""

import functools
import logging
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hostile import KINDS, hostile_responses

from rpg import rewards
from rpg.rewards import TIME_LIMIT, Score, symbolic

compute_score = functools.partial(rewards.compute_score, judge="verified")

SLOW = 0.1  # seconds
SLACK = 1.0  # seconds for forking and scheduling
HARD_LIMIT = TIME_LIMIT * symbolic.WALL_FACTOR + SLACK  # the time limit counts processor time, this one any
NINES, ROOT = "Answer: 9^{9^9}", r"\sqrt{5}"  # a comparison that takes sympy minutes


def children() -> list[str]:
    helper = symbolic.pool.running_helper().process.pid
    return Path(f"/proc/{helper}/task/{helper}/children").read_text().split()


def memory_mb() -> float:
    """Memory of this process, its helper and the helper's children."""
    pids = ["self", str(symbolic.pool.running_helper().process.pid), *children()]
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/status").read_text().splitlines()]
    return sum(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


def timed_score(response: str, truth: str) -> tuple[Score, float]:
    start = time.perf_counter()
    result = compute_score("math-500", response, truth)
    return result, time.perf_counter() - start


def run_hostile(count: int) -> dict[str, int]:
    """Score `count` responses; assert what must hold of each; return what was slow."""
    seen = {"slow": 0, "over_limit": 0}
    for kind, response, truth in hostile_responses(count):
        over_before = symbolic.counts.over_limit
        calls_before = symbolic.counts.calls
        result, seconds = timed_score(response, truth)
        if seconds > SLOW and symbolic.counts.calls == calls_before:
            result, seconds = min((timed_score(response, truth) for _ in range(5)), key=lambda pair: pair[1])
        assert result["score"] == -1.0, (kind, response[:100], truth, result)
        assert len(result["pred"].encode()) <= 4 * 200
        assert seconds < HARD_LIMIT, (kind, response[:100], seconds)
        over_limit = symbolic.counts.over_limit > over_before
        if seconds > SLOW and not over_limit:
            assert symbolic.counts.calls > calls_before, ("slow without the library", kind, response[:100])
        seen["over_limit"] += over_limit
        seen["slow"] += seconds > SLOW and not over_limit
    return seen


@pytest.mark.parametrize(
    "count", [40 * len(KINDS), pytest.param(10_000, marks=pytest.mark.full)], ids=["sample", "10000"]
)
def test_no_crash_no_hang_no_growth(
    count: int, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.ERROR)
    memory_mb()  # loads the library, once in a worker's life: 2 to 3 seconds
    run_hostile(10 * len(KINDS))  # fills caches
    before = memory_mb()
    start = time.perf_counter()
    seen = run_hostile(count)
    growth = memory_mb() - before
    with capsys.disabled():
        print(f"\n{count} hostile: {time.perf_counter() - start:.0f} s, {seen}, growth {growth:.1f} MB")
    assert seen["over_limit"] < 0.02 * count
    assert seen["slow"] < 0.03 * count
    assert growth < 100  # four children with caches of up to 200 comparisons each


def test_limit_holds_in_threads_and_others_go_on(caplog: pytest.LogCaptureFixture) -> None:
    """verl scores in a thread pool, where signal.alarm cannot be used."""
    caplog.set_level(logging.ERROR)
    compute_score("math-500", "Answer: 1+x", "x+1")  # loads the library
    symbolic._verdict.cache_clear()
    slowest = 0.0

    def score(number: int) -> float:
        nonlocal slowest
        assert threading.current_thread() is not threading.main_thread()
        start = time.perf_counter()
        pair = (f"{NINES}+{number}", ROOT) if number % 8 == 0 else (f"Answer: {number}+x", f"x+{number}")
        result = compute_score("math-500", *pair)
        slowest = max(slowest, time.perf_counter() - start)
        return float(result["acc"])

    with ThreadPoolExecutor(16) as pool:
        verdicts = list(pool.map(score, range(32)))
    assert verdicts == [float(number % 8 != 0) for number in range(32)]
    assert slowest < HARD_LIMIT  # 4 bombs in 4 slots do not add up


def test_time_limit_is_the_callers() -> None:
    before = symbolic.counts.over_limit
    start = time.perf_counter()
    assert compute_score("math-500", NINES, ROOT, time_limit=0.11)["acc"] == 0.0
    assert 0.1 < time.perf_counter() - start < 0.11 * symbolic.WALL_FACTOR + SLACK
    assert symbolic.counts.over_limit == before + 1


def test_a_bomb_is_paid_for_once() -> None:
    pair = (f"{NINES}+77", ROOT)
    compute_score("math-500", *pair)
    start = time.perf_counter()
    for _ in range(100):
        assert compute_score("math-500", *pair)["acc"] == 0.0
    assert time.perf_counter() - start < TIME_LIMIT


def test_memory_bomb_ends_its_child_only() -> None:
    pid = symbolic.pool.running_helper().process.pid
    assert compute_score("math-500", r"Answer: 2^{2^{40}}+x", "x", time_limit=2.0)["acc"] == 0.0
    assert symbolic.pool.running_helper().process.pid == pid
    assert compute_score("math-500", "Answer: 105+x", "x+105")["acc"] == 1.0


def test_helper_or_child_killed_from_outside_is_replaced() -> None:
    compute_score("math-500", "Answer: 106+x", "x+106")
    killed = symbolic.pool.running_helper().process
    victims = children()
    assert victims
    for pid in victims:
        os.kill(int(pid), signal.SIGKILL)
    assert compute_score("math-500", "Answer: 107+x", "x+107")["acc"] == 1.0
    killed.kill()
    killed.wait()
    assert children() == []  # of a new helper
    assert compute_score("math-500", "Answer: 108+x", "x+108")["acc"] == 1.0
    assert symbolic.pool.running_helper().process.pid != killed.pid


def test_nothing_outlives_a_killed_worker() -> None:
    code = (
        "import sys, time; from rpg.rewards import compute_score, symbolic\n"
        "assert compute_score('math-500', 'Answer: 1+x', 'x+1', judge='verified')['acc'] == 1.0\n"
        "print(symbolic.pool.running_helper().process.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as worker:
        assert worker.stdout
        helper = Path(f"/proc/{int(worker.stdout.readline())}")
        family = [
            helper,
            *(Path(f"/proc/{pid}") for pid in (helper / f"task/{helper.name}/children").read_text().split()),
        ]
        assert len(family) == 2
        worker.kill()
    deadline = time.monotonic() + 10 * SLACK
    while any(is_running(process) for process in family) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not [process for process in family if is_running(process)]


def is_running(process: Path) -> bool:
    try:
        return "State:\tZ" not in (process / "status").read_text()  # a zombie only waits for its new parent
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_children_are_few_and_renewed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbolic, "CALLS_PER_CHILD", 3)
    first = children()
    for number in range(200, 212):
        assert compute_score("math-500", f"Answer: {number}+x", f"x+{number}")["acc"] == 1.0
        assert len(children()) <= symbolic.MAX_AT_ONCE + 1  # one may be on its way out
    assert not set(children()) & set(first)


def test_model_output_is_never_evaluated(tmp_path: Path) -> None:
    marker = tmp_path / "run"
    code = f"open('{marker}','w')"
    for response in (f"Answer: {code}", f"Answer: $ {code} $", f"Answer: 1+{code}", rf"\boxed{{{code}}}"):
        compute_score("math-500", response, r"\sqrt{2}")
    assert not marker.exists()
