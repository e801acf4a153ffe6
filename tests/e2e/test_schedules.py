"""Rollouts a batch ahead of training, pi_old what sampled, a reference that moves: killed and started again.

One run for all of it, as each start takes most of a minute.
"""

import json
import os
import signal
from collections import Counter

import pytest

from rpg.checkpoints import manifest
from tests.e2e.conftest import ROOT
from tests.e2e.test_resume import gone

pytestmark = pytest.mark.e2e

SCRIPT = ROOT / "recipe/rpg/cpu/run_rpg_cpu_urkl1e-4_rf_async.sh"  # schedule=async, pi_old=behavior
STALENESS = "training/off_policy/trajectory_staleness"
BATCH, ANSWERS = 32, 8


def test_asynchronous_killed_and_started_again(start, tmp_path):
    directory = tmp_path / "run"
    command = [
        "bash",
        str(SCRIPT),
        f"trainer.default_local_dir={directory}",
        f"trainer.rollout_data_dir={tmp_path / 'trained'}",
        "trainer.total_training_steps=6",
        "trainer.save_freq=2",
        "trainer.max_actor_ckpt_to_keep=null",
        "trainer.val_before_train=false",
        "trainer.test_freq=-1",
        "rpg.console=full",
        "reference=every_k",
        "rpg.reference.every_k=3",
    ]
    first = start(command=command)
    first.directory = directory
    first.wait_for_step(3)
    os.kill(first.process.pid, signal.SIGKILL)
    first.process.wait()
    assert gone(first) == []
    assert max(record["step"] for record in first.metrics()) < 6
    complete = sorted(path.parent for path in directory.glob(f"global_step_*/{manifest.NAME}"))
    parts = {name.split("/")[0] for name in manifest.read(complete[-1])}
    assert parts >= {"actor", "data.pt", "reference", "transfer_queue"}

    again = start(command=command)
    assert again.wait() == 0, again.text()[-3000:]
    again.directory = directory
    # the batch that rollouts were ahead by is taken up, and no other asked for in its place
    assert f"setting global step to {complete[-1].name.rpartition('_')[2]}" in again.text()
    assert f"Restored {BATCH} training prompt groups" in again.text()
    assert f"{BATCH} restored prompt groups already fill the {BATCH}-prompt prefetch window" in again.text()
    records = {record["step"]: record["data"] for record in again.metrics()}
    assert [record["step"] for record in again.metrics()] == list(range(1, 7))

    # samples are of older policies, and the ratio is to the one that sampled
    stale = [step for step, data in records.items() if data[f"{STALENESS}/max"] > 0]
    assert stale
    assert records[1]["actor/rpg_ratio_max"] < 1.01  # by verl's warm-up the first step moves nothing
    assert max(records[step]["actor/rpg_ratio_max"] for step in stale if step > 2) > 1.05
    # the pass for old log-probs is gone, which measures the entropy
    assert not any("actor/entropy" in data for data in records.values())
    # two optimizer steps a batch, renewed at the next batch after three; the kill is not to be seen in it
    assert [data["reference/age"] for data in records.values()] == [2, 4, 2, 4, 2, 4]
    assert [data["reference/updates"] for data in records.values()] == [0, 0, 1, 1, 2, 2]
    for step, data in records.items():
        rows = [json.loads(line) for line in (tmp_path / "trained" / f"{step}.jsonl").read_text().splitlines()]
        counts = Counter(row["input"] for row in rows)
        assert len(rows) == BATCH * ANSWERS
        assert all(count % ANSWERS == 0 for count in counts.values())
        assert data["training/left_out_responses"] == data["actor/skipped_steps"] == 0
