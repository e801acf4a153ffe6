"""The recipe runs as recipe/rpg of a directory that has verl."""

import os
import subprocess
import sys

import pytest

from tests.builders.pull_request import SCRIPT, make
from tests.e2e.conftest import PATIENCE, TOY
from tests.e2e.short_run import metrics

pytestmark = [pytest.mark.e2e, pytest.mark.full]


def test_a_script_trains_there(tmp_path):
    data = {"MODEL_PATH": TOY / "model", "TRAIN_FILE": TOY / "toy_train.parquet", "TEST_FILE": TOY / "toy_test.parquet"}
    command = ["bash", f"recipe/rpg/{SCRIPT}", "trainer.total_training_steps=2", "trainer.val_before_train=false",
               "trainer.test_freq=-1", f"trainer.default_local_dir={tmp_path / 'run'}", "rpg.console=full"]  # fmt: skip
    environment = {**os.environ, "PYTHON": sys.executable, **{name: str(path) for name, path in data.items()}}
    (tmp_path / "checkout").mkdir()
    done = subprocess.run(command, cwd=make(tmp_path / "checkout"), env=environment, capture_output=True, text=True,
                          timeout=PATIENCE, check=False)  # fmt: skip
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    assert metrics(tmp_path / "run")[-1]["step"] == 2
