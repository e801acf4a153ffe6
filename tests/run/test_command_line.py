"""From the command line to the configuration: any path, under DRY_RUN."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rpg.registry.scripts import RECIPE as LINK
from rpg.registry.scripts import find

ODD = "a b,c='d'\"([{}$x\\ü#;&*"
VARIABLES = ("MODEL_PATH", "TRAIN_FILE", "TEST_FILE", "CKPTS_DIR", "NNODES", "RAY_ADDRESS", "DRY_RUN")
RECIPE = LINK.resolve()
CPU = find("grpo_cpu").path


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch):
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)


def printed(*command: str | Path, **environment: str) -> dict:
    """Return the configuration of a dry run, whose stdout is only YAML."""
    environment = {**os.environ, "PYTHON": sys.executable, "DRY_RUN": "1", **environment}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr
    return yaml.safe_load(done.stdout)


def test_paths_of_any_letters(tmp_path):
    """Paths of checkout, interpreter and environment variables."""
    root = tmp_path / ODD
    for package in ("rpg", "recipe"):
        source = RECIPE.parents[1] / package
        shutil.copytree(source, root / package, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    config = printed("bash", root / "recipe/rpg/7b/run_dapo_7b.sh")
    assert config["rpg"]["data_dir"] == f"{root}/data"
    assert all(Path(name).is_relative_to(root) for name in config["data"]["val_files"])
    paths = {name: f"/data/{ODD}/{name}" for name in ("MODEL_PATH", "TRAIN_FILE", "TEST_FILE", "CKPTS_DIR")}
    link = root / f"python {ODD}"
    link.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    link.chmod(0o755)
    config = printed("bash", CPU, **paths, PYTHON=str(link))
    assert config["actor_rollout_ref"]["model"]["path"] == paths["MODEL_PATH"]
    assert config["data"]["train_files"] == paths["TRAIN_FILE"]
    assert config["data"]["val_files"] == paths["TEST_FILE"]
    assert config["trainer"]["default_local_dir"] == f"{paths['CKPTS_DIR']}/grpo_cpu"
