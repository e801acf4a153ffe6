"""Many steps of small batches: growth of memory, threads, open files, shared memory and step time by process.

docs/reliability.md has the figures of what it prints for RPG_SOAK_STEPS=300, a quarter of an hour on two free cores.
"""

import json
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
# Most that 400 steps may add to a process, at the lower end of the interval: MB, and a few of what pools of threads and
# connections grow by in chance moments. 100 MB in 400 steps are 2.5 GB in 10,000.
GROWTH = {"MB": 100, "threads": 10, "files": 10, "processes": 1}


def anonymous(pid: int) -> float:
    """Return a process's anonymous memory in MB, including pages shared with siblings."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except ProcessLookupError:
        raise psutil.NoSuchProcess(pid) from None
    return int(status.partition("RssAnon:")[2].split()[0]) / 1e3


def looked_at(run) -> dict[str, dict[str, float]]:
    """Return memory in MB, threads and open files by kind of process."""
    found: dict[str, dict[str, float]] = {}
    for process in run.processes():
        try:
            name = process.cmdline()[0].split("(")[0]
            name = name if name.startswith(("ray::", "VLLM::")) else Path(name).name
            memory, threads, files = anonymous(process.pid), process.num_threads(), process.num_fds()
        except (psutil.NoSuchProcess, psutil.AccessDenied, FileNotFoundError, IndexError):
            continue
        figures = {"MB": memory, "threads": threads, "files": files, "processes": 1}
        for key, value in figures.items():
            entry = found.setdefault(name, {})
            entry[key] = entry.get(key, 0.0) + value
    found["/dev/shm"] = {"files": len(list(cleanup.SHARED.iterdir()))}
    return found


def slope(steps: list[int], values: list[float]) -> tuple[float, float, float]:
    """Return mean, change over 400 steps and the half width of its 95% interval, from averages of ten.

    Averages of ten reduce the autocorrelation of consecutive measurements.
    """
    blocks = max(3, len(steps) // 10)
    x = np.array([part.mean() for part in np.array_split(np.array(steps, float), blocks)])
    y = np.array([part.mean() for part in np.array_split(np.array(values, float), blocks)])
    design = np.stack([np.ones_like(x), x - x.mean()], axis=1)
    fit, *_ = np.linalg.lstsq(design, y, rcond=None)
    residual = y - design @ fit
    error = np.sqrt(residual @ residual / (blocks - 2) / ((x - x.mean()) ** 2).sum())
    return float(fit[0]), 400 * float(fit[1]), 400 * 1.96 * float(error)


def test_nothing_grows(start, capsys):
    run = start(*SETTINGS)
    samples: list[tuple[int, dict[str, dict[str, float]]]] = []
    for step in range(1, STEPS):
        run.wait_for_step(step)
        samples.append((run.metrics()[-1]["step"], looked_at(run)))
    assert run.wait(PATIENCE) == 0, run.text()[-3000:]
    warm = [(step, found) for step, found in samples if step > WARM]
    rows = []
    for name in sorted({name for _, found in warm for name in found}):
        seen = [(step, found[name]) for step, found in warm if name in found]
        if len(seen) < len(warm) / 2:  # a child that came and went
            continue
        for key in seen[0][1]:
            rows.append((name, key, *slope([step for step, _ in seen], [each[key] for _, each in seen])))
    records = [json.loads(line) for line in (run.directory / "metrics.jsonl").read_text().splitlines()]
    times = [(record["step"], record["data"]["timing_s/step"]) for record in records if record["step"] > WARM]
    rows.append(("run", "s a step", *slope([step for step, _ in times], [seconds for _, seconds in times])))
    with capsys.disabled():
        print("| process | what | mean | change over 400 steps |\n|---|---|---|---|")
        for name, key, mean, change, width in rows:
            print(f"| {name} | {key} | {mean:.4g} | {change:+.2g} ± {width:.2g} |", flush=True)
    grown = [row for row in rows if row[1] in GROWTH and row[3] - row[4] > GROWTH[row[1]]]
    assert grown == []
    assert [record["step"] for record in records] == list(range(1, STEPS + 1))
