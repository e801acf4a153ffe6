"""Starts of the stack in a row, a busy process beside them: none may fail by chance.

Before the import server's children had ids of their own, Ray lost a worker in some of them (docs/cpu.md has the
count, of RPG_STARTS=40). Each run goes until its first step. The figures are printed with `pytest -s`.
"""

import multiprocessing
import os
import time

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.full]

STARTS = int(os.environ.get("RPG_STARTS", "8"))
FIRST_STEP = [
    "trainer.total_training_steps=1",
    "trainer.test_freq=-1",
    "trainer.val_before_train=false",
    "trainer.save_freq=-1",
]


def spin() -> None:
    while True:
        pass


@pytest.fixture(scope="module")
def busy():
    process = multiprocessing.get_context("spawn").Process(target=spin, daemon=True)
    process.start()
    yield
    process.kill()
    process.join()


def test_every_start_succeeds(start, busy):
    failed = []
    for number in range(STARTS):
        began = time.monotonic()
        run = start(*FIRST_STEP)
        code = run.wait()
        print(f"start {number}: exit code {code} after {time.monotonic() - began:.0f} s", flush=True)
        if code or run.processes() or len(run.metrics()) != 1:
            failed.append(f"start {number}: exit code {code}\n{run.text()[-1500:]}")
        run.end()
    assert not failed, f"{len(failed)} of {STARTS}:\n" + "\n".join(failed)
