"""A real run's checkpoints: complete by their manifest, and passed over where a file of them is damaged."""

import json
import os
import re
import signal
import subprocess
import sys

import pytest
import yaml

from rpg.files import manifest
from rpg.files.integrity import verify
from tests.e2e.conftest import PATIENCE, ROOT

pytestmark = [pytest.mark.e2e, pytest.mark.full]

OPTIM = "actor/optim_world_size_1_rank_0.pt"
MODEL = "actor/model_world_size_1_rank_0.pt"
SETTINGS = [
    "trainer.test_freq=-1",
    "trainer.val_before_train=false",
    "trainer.save_freq=1",
    "trainer.max_actor_ckpt_to_keep=null",
    "reference=every_k",  # whose shards are in the checkpoint as well
    "rpg.reference.every_k=2",
    "rpg.console=full",
]


def test_a_damaged_newest_checkpoint_is_passed_over(start):
    first = start(*SETTINGS, "trainer.total_training_steps=3")
    assert first.wait() == 0, first.text()[-3000:]
    directory = first.directory
    here = f"trainer.default_local_dir={directory}"
    for step in (1, 2, 3):
        verdict = verify(directory / f"global_step_{step}")
        assert verdict.complete, verdict
        assert verdict.has_manifest
    files = manifest.read(directory / "global_step_3").keys()
    assert {OPTIM, MODEL, "data.pt", "reference/world_size_1_rank_0.pt", "actor/huggingface/config.json"} <= files

    # as a full disk and a kill leave them: an empty file, a save without its end
    (directory / "global_step_3" / OPTIM).write_bytes(b"")
    (directory / "global_step_2" / manifest.NAME).rename(directory / "global_step_2" / manifest.UNFINISHED)

    export = [sys.executable, "-m", "rpg.cli", "export", str(directory / "global_step_3")]
    done = subprocess.run(export, cwd=ROOT, capture_output=True, text=True, timeout=PATIENCE, check=False)
    assert done.returncode == 2
    assert OPTIM in done.stderr
    named = ["trainer.resume_mode=resume_path", f"trainer.resume_from_path={directory}/global_step_3"]
    refused = start(*SETTINGS, here, *named)
    assert refused.wait() == 2
    assert OPTIM in refused.text()

    again = start(*SETTINGS, here, "trainer.total_training_steps=4")
    assert again.wait() == 0, again.text()[-3000:]
    assert all(f"global_step_{step} is passed over" in again.text() for step in (2, 3))
    assert yaml.safe_load((directory / "config.yaml").read_text())["trainer"]["resume_from_path"].endswith("_step_1")
    records = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    assert [record["step"] for record in records] == [1, 2, 3, 4]
    for step in (1, 2, 3, 4):
        assert verify(directory / f"global_step_{step}").complete
    assert again.processes() == []


def test_killed_while_a_checkpoint_is_written(start):
    """SIGKILL when the second save has begun, with one checkpoint kept: the run goes on from the first."""
    settings = [*SETTINGS, "trainer.max_actor_ckpt_to_keep=1", "trainer.total_training_steps=3"]
    first = start(*settings)
    directory = first.directory
    first.wait_for_step(1)
    said = re.search(r"\(RPGTaskRunner pid=(\d+)\)", first.text())
    assert said, first.text()[-3000:]
    while not (directory / "global_step_2" / manifest.UNFINISHED).exists():
        assert first.process.poll() is None, first.text()[-3000:]
    os.kill(int(said[1]), signal.SIGKILL)  # at once: a save takes some tenths of a second
    first.end()
    first.process.wait()
    assert "did not come to its end" in verify(directory / "global_step_2").why
    assert verify(directory / "global_step_1").complete

    again = start(*settings, f"trainer.default_local_dir={directory}")
    assert again.wait() == 0, again.text()[-3000:]
    assert "global_step_2 is passed over" in again.text()
    assert [record["step"] for record in first.metrics()] == [1, 2, 3]
    # a start removes what it wrote itself, as verl does: step 2 by the second, step 1 by nobody
    assert {path.name for path in directory.glob("global_step_*")} == {"global_step_1", "global_step_3"}
    assert verify(directory / "global_step_3").complete
