"""SIGKILL in mid-run, then the same command: it goes on from its checkpoint, and nothing of the first start is lost."""

import json
import os
import signal
import time

import pytest
import yaml

from tests.e2e.conftest import PATIENCE

pytestmark = pytest.mark.e2e

SETTINGS = [
    "trainer.test_freq=2",
    "trainer.val_before_train=true",
    "trainer.save_freq=2",
    "trainer.total_training_steps=4",
]


def gone(run) -> list[str]:
    """Names of a run's processes that still live a while after the driver was killed."""
    until = time.monotonic() + 120
    while run.processes() and time.monotonic() < until:
        time.sleep(0.5)
    return [" ".join(process.cmdline()) for process in run.processes()]


def test_killed_and_started_again(start):
    first = start(*SETTINGS)
    here = f"trainer.default_local_dir={first.directory}"
    first.wait_for_step(1)
    # meanwhile the directory is the first one's
    before = {
        path.name: path.read_bytes()
        for path in first.directory.glob("*.*")
        if path.name.startswith(("conf", "env", "finger"))
    }
    second = start(*SETTINGS, here)
    assert second.wait() == 2
    assert f"in use by process {first.process.pid}" in second.text()
    assert {name: (first.directory / name).read_bytes() for name in before} == before
    first.wait_for_step(3)
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait()
    assert gone(first) == []
    steps = [record["step"] for record in first.metrics()]
    assert steps == [0, 1, 2, 3]  # the whole, though nobody could put anything together
    with open(first.directory / "metrics.jsonl", "a") as stream:
        stream.write('{"step": 4, "da')

    other = start(*SETTINGS, here, "data.seed=7")
    assert other.wait(PATIENCE) == 2
    assert "data.seed=7: the run in " in other.text()
    assert yaml.safe_load((first.directory / "config.yaml").read_text())["data"]["seed"] != 7

    again = start(*SETTINGS, here)
    assert again.wait() == 0, again.text()[-3000:]
    assert "metrics.jsonl had step 3, after the checkpoint of step 2: made again" in again.text()
    assert "metrics.jsonl had 1 torn lines" in again.text()
    records = [json.loads(line) for line in (first.directory / "metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records] == [0, 1, 2, 3, 4]
    assert again.processes() == []
    history = [json.loads(line) for line in (first.directory / "history.jsonl").read_text().splitlines()]
    assert [(line["after_step"], line["changed"]) for line in history] == [(0, {}), (2, {})]
