"""`rpg reproduce`: killed and restarted without repeated steps; two jobs at once."""

import json
import os
import shlex
import signal
import subprocess
import sys
import time

import psutil
import pytest

from tests.e2e import short_run
from tests.e2e.conftest import PATIENCE, TOY
from tests.e2e.test_cluster import head
from tests.e2e.test_stack import ROLLOUT_KL

pytestmark = [pytest.mark.e2e, pytest.mark.full]

STEPS = 8  # of a second: the run is still going when the test has seen the first
ROWS = {"GRPO": "grpo_cpu", "RPG-REINFORCE-URKL": "rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28"}
# as little work as makes steps, validations and checkpoints
SMALL = [
    "trainer.save_freq=1",
    "data.train_batch_size=4",
    "actor_rollout_ref.actor.ppo_mini_batch_size=4",
    "actor_rollout_ref.rollout.n=2",
    "data.val_max_samples=16",
]


def test_killed_and_started_again(start, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "rpg.cli", "reproduce", "8", *SMALL, "--profile", "cpu", "--steps", str(STEPS)]
    command += ["--seeds", "1", "--out", str(out), "--methods", *ROWS]
    environment = {
        "PYTHON": sys.executable,
        "MODEL_PATH": str(TOY / "model"),
        "TRAIN_FILE": str(TOY / "toy_train.parquet"),
        "TEST_FILE": str(TOY / "toy_test.parquet"),
    }
    runs = {method: out / "runs" / f"{name}-seed1" for method, name in ROWS.items()}

    first = start(command=command, **environment)
    first.directory = runs["GRPO"]
    first.wait_for_step(1)
    os.kill(first.process.pid, signal.SIGKILL)

    again = start(command=command, **environment)
    assert again.wait(2 * PATIENCE) == 0, again.text()[-4000:]
    said = again.text()
    starts = {}
    for method in ROWS:
        records = [json.loads(line) for line in (runs[method] / "metrics.jsonl").read_text().splitlines()]
        assert [record["step"] for record in records] == list(range(STEPS + 1)), method
        starts[method] = [one["after_step"] for one in short_run.starts(runs[method])]
    assert starts["RPG-REINFORCE-URKL"] == [0]
    begun, resumed = starts["GRPO"]
    assert begun == 0 < resumed < STEPS
    for method in starts:
        assert f"{method} | **" in said or f"{method} | <u>" in said or f"{method} | 0." in said
    assert again.processes() == []

    third = start(command=command, **environment)  # nothing is left to train
    assert third.wait() == 0, third.text()[-4000:]
    assert third.text().count(f"finished at step {STEPS} of {STEPS}") == 2


def test_two_jobs_at_once_each_with_its_own_weights(start, tmp_path):
    """A cluster of two nodes on this machine; the commands are killed, and their jobs train on to the end."""
    out, methods = tmp_path / "out", {"GRPO": "grpo_cpu", "RPG-URKL": "rpg_cpu_urkl1e-4"}
    command = [sys.executable, "-m", "rpg.cli", "reproduce", "8", *SMALL, "actor_rollout_ref.actor.optim.lr=3e-3"]
    command += ["--profile", "cpu", "--steps", str(STEPS), "--out", str(out), "--methods", *methods]
    printed = subprocess.run([*command, "--dry-run"], capture_output=True, text=True, check=True).stdout.splitlines()
    runs = [out / "runs" / f"{name}-seed1" for name in methods.values()]
    with head(tmp_path / "cluster") as cluster:
        cluster.start_worker()
        environment = {**cluster.env, "RAY_ADDRESS": cluster.url, "PYTHON": sys.executable}
        first = [start(command=shlex.split(line), **environment) for line in printed]
        until = time.monotonic() + 2 * PATIENCE
        while not all((run / "run.log").is_file() for run in runs):  # both have begun, and make no step yet
            assert all(one.process.poll() is None for one in first), [one.text()[-4000:] for one in first]
            assert time.monotonic() < until, [one.text()[-4000:] for one in first]
            time.sleep(0.5)
        for one in first:
            os.kill(one.process.pid, signal.SIGKILL)
            assert not psutil.wait_procs([psutil.Process(child.pid) for child in one.processes()], timeout=60)[1]
        refused = start(command=shlex.split(printed[-1]), **environment)  # by Ray, while the job runs
        assert refused.wait(2 * PATIENCE) == 1, refused.text()[-4000:]
        assert "already exists" in refused.text()
        while '"RUNNING"' in cluster.ray("list", "jobs", "--address", cluster.url, "--format", "json"):
            assert time.monotonic() < until
            time.sleep(1)
        again = [start(command=shlex.split(line), **environment) for line in printed]
        assert [one.wait(2 * PATIENCE) for one in again] == [0, 0], [one.text()[-4000:] for one in again]
    spans = []
    for run in runs:
        records = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
        assert [record["step"] for record in records] == list(range(STEPS + 1))
        # of few tokens: the mean of the log-probs' differences is rounding (up to 1.4e-6), that of their squares 1e-9
        assert all(abs(record["data"]["rollout_corr/k3_kl"]) < ROLLOUT_KL for record in records[1:])
        [start_of_run] = short_run.starts(run)
        at = time.mktime(time.strptime(start_of_run["started"][:19], "%Y-%m-%dT%H:%M:%S"))
        spans.append((at, (run / "metrics.jsonl").stat().st_mtime))
    assert max(at for at, _ in spans) < min(ended for _, ended in spans)  # at the same time
