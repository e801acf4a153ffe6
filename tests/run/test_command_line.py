"""From the command line to the configuration: any path, lists of files, DRY_RUN, a late Ray, early signals."""

import contextlib
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
from rpg.run import start
from rpg.verl_plugin import resolvers

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


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("[ a b.parquet , /ü/it's(1)=.parquet ]", ["a b.parquet", "/ü/it's(1)=.parquet"]),
        ("['a,b.parquet',\"it's, c.parquet\",1e-4]", ["a,b.parquet", "it's, c.parquet", "1e-4"]),
        ("one.parquet", "one.parquet"),
    ],
)
def test_files_of_the_environment(monkeypatch, text, names):
    monkeypatch.setenv("TRAIN_FILE", text)
    assert resolvers.files("TRAIN_FILE", "otherwise") == names
    assert resolvers.files("NO_SUCH_VARIABLE", "otherwise") == "otherwise"


def test_a_dry_run(monkeypatch):
    for value, shows in (("1", True), ("yes", True), ("", False), ("0", False), ("off", False)):
        monkeypatch.setenv("DRY_RUN", value)
        assert start.dry_run() is shows


@pytest.fixture(scope="module")
def waiting_run(tmp_path_factory) -> dict[str, str]:
    """Return the environment of a run that blocks on the model's config.json, a pipe without a writer."""
    directory = tmp_path_factory.mktemp("waiting")
    write_together({directory / "train.parquet": repeated_rows(toy_problems("train", seed=0, count=64))})
    (directory / "model").mkdir()
    os.mkfifo(directory / "model/config.json")
    files = {name: str(directory / "train.parquet") for name in ("TRAIN_FILE", "TEST_FILE")}
    return {**files, "MODEL_PATH": str(directory / "model"), "CKPTS_DIR": str(directory / "runs")}


def written_to(pipe: Path, process: subprocess.Popen) -> int:
    """Return the pipe's other end when the process reads from it; the process waits until that is closed."""
    end = time.monotonic() + 120
    while time.monotonic() < end and process.poll() is None:
        with contextlib.suppress(OSError):  # ENXIO while nobody reads
            return os.open(pipe, os.O_WRONLY | os.O_NONBLOCK)
        time.sleep(0.005)
    pytest.fail(f"nothing reads {pipe}: {process.communicate()}")


@pytest.mark.slow
def test_ctrl_c_in_the_first_seconds(waiting_run):
    """When Python reads the model's config.json."""
    process = subprocess.Popen(
        ["bash", str(CPU)], env={**os.environ, "PYTHON": sys.executable, **waiting_run}, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    pipe = written_to(Path(waiting_run["MODEL_PATH"]) / "config.json", process)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=120)
    os.close(pipe)
    assert (process.returncode, out, err) == (130, "", "interrupted before the run began\n")
    assert not Path(waiting_run["CKPTS_DIR"]).exists()
