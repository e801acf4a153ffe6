"""The whole stack on the oldest verl that whole runs take."""

import json
import os
import zipfile
from pathlib import Path

import pytest

from scripts import verl_matrix
from tests.e2e import short_run

VERSION = "0.9.0"


@pytest.mark.e2e
@pytest.mark.full
def test_two_steps_and_a_checkpoint(tmp_path: Path):
    with zipfile.ZipFile(verl_matrix.wheel(VERSION)) as archive:
        archive.extractall(tmp_path / "verl")
    paths = [str(tmp_path / "verl"), *filter(None, [os.environ.get("PYTHONPATH")])]
    run = tmp_path / "run"
    steps = short_run.run(run, 2, "trainer.save_freq=2", PYTHONPATH=os.pathsep.join(paths))
    assert [step["step"] for step in steps] == [1, 2]
    assert all(step["actor/grad_norm"] > 0 and "actor/rpg_kl" in step for step in steps)
    assert (run / "global_step_2").is_dir()
    assert json.loads((run / "environment.json").read_text())["versions"]["verl"] == VERSION
