"""Many steps of small batches: growth of memory, threads, open files and shared memory, by kind of process."""

import os
from pathlib import Path

import numpy as np
import psutil
import pytest

from rpg.run import cleanup
from tests.e2e.conftest import PATIENCE

pytestmark = [pytest.mark.e2e, pytest.mark.full]

STEPS = int(os.environ.get("RPG_SOAK_STEPS", "120"))
WARM = STEPS // 5  # allocators and caches fill up first
SETTINGS = [
    f"trainer.total_training_steps={STEPS}",
    "data.train_batch_size=8",
    "actor_rollout_ref.actor.ppo_mini_batch_size=4",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    "trainer.save_freq=50",
    "trainer.max_actor_ckpt_to_keep=1",
    "rpg.time_limit=7200",
]
# Most that 400 steps may add to a kind of process, at the lower end of the interval: MB, and a few of what pools of
# threads and connections grow by in chance moments. 100 MB in 400 steps are 2.5 GB in 10,000.
GROWTH = {"MB": 100, "threads": 10, "files": 10, "processes": 1}


def looked_at(run) -> dict[tuple[str, str], float]:
    """Return anonymous memory in MB, threads, open files and number, by kind of process."""
    found = {("/dev/shm", "files"): float(len(list(cleanup.SHARED.iterdir())))}
    for process in run.processes():
        try:
            name = process.cmdline()[0].split("(")[0]
            memory = int(Path(f"/proc/{process.pid}/status").read_text().partition("RssAnon:")[2].split()[0]) / 1e3
            figures = {"MB": memory, "threads": process.num_threads(), "files": process.num_fds(), "processes": 1}
        except (psutil.Error, ProcessLookupError, FileNotFoundError, IndexError):  # ended meanwhile
            continue
        for key, value in figures.items():
            found[name, key] = found.get((name, key), 0.0) + value
    return found


def least_growth(steps: list[int], values: list[float]) -> float:
    """Return the lower end of the 95% interval of the change over 400 steps.

    From averages of ten, which reduces the autocorrelation of consecutive measurements.
    """
    blocks = max(3, len(steps) // 10)
    x, y = ([part.mean() for part in np.array_split(np.array(each, float), blocks)] for each in (steps, values))
    (slope, _), covariance = np.polyfit(x, y, 1, cov=True)
    return 400 * float(slope - 1.96 * covariance[0, 0] ** 0.5)


def test_nothing_grows(start):
    run, samples = start(*SETTINGS), []
    for step in range(1, STEPS):
        run.wait_for_step(step)
        samples.append((run.metrics()[-1]["step"], looked_at(run)))
    assert run.wait(PATIENCE) == 0, run.text()[-3000:]
    assert [record["step"] for record in run.metrics()] == list(range(1, STEPS + 1))
    warm = [(step, found) for step, found in samples if step > WARM]
    grown = {}
    for kind in {kind for _, found in warm for kind in found}:
        seen = [(step, found[kind]) for step, found in warm if kind in found]
        if len(seen) >= len(warm) / 2:  # otherwise a child that came and went
            grown[kind] = least_growth(*map(list, zip(*seen, strict=True)))
    print(grown)
    assert {kind: change for kind, change in grown.items() if change > GROWTH[kind[1]]} == {}
