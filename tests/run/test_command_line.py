"""From the command line to the configuration: any path, lists of files, DRY_RUN, a late Ray, early signals."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from rpg.data.parquet import repeated_rows, write_together
from rpg.data.toy import toy_problems
from rpg.registry.scripts import RECIPE as LINK
from rpg.registry.scripts import find
from rpg.toy import sums

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


@pytest.mark.slow
def test_ctrl_c_in_the_first_seconds(tmp_path):
    """While the checks import torch."""
    environment = {**os.environ, "PYTHON": sys.executable, "CKPTS_DIR": str(tmp_path / "runs")}
    for variable in ("TRAIN_FILE", "TEST_FILE"):
        environment[variable] = str(tmp_path / "problems.parquet")
    environment["MODEL_PATH"] = str(sums.MODEL)
    write_together({tmp_path / "problems.parquet": repeated_rows(toy_problems("train", seed=0, count=64))})
    process = subprocess.Popen(
        ["bash", str(CPU)], env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        start_new_session=True,
    )  # fmt: skip
    until = time.monotonic() + 120
    while "libtorch" not in Path(f"/proc/{process.pid}/maps").read_text():
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.005)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert (process.returncode, out, err) == (130, "", "interrupted before the run began\n")
    assert not (tmp_path / "runs").exists()
