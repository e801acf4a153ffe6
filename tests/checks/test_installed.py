"""Wrong builds of torch, vLLM and flash-attn are reported before anything starts."""

import importlib.util
import sys
from pathlib import Path

import pytest
import torch

from rpg.checks.machine import LOGGERS, devices, flash_attention, packages, working_directory
from rpg.config.verl_keys import MODEL
from tests.builders.toy_run import run_of

GPU = ["trainer.device=cuda", "ray_kwargs.ray_init.num_gpus=null"]


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch):
    monkeypatch.delenv("RAY_ADDRESS", raising=False)


@pytest.mark.skipif(torch.version.cuda is not None, reason="torch is built for GPUs here")
def test_the_cpu_environment_is_named(toy, monkeypatch):
    """Otherwise it would look like a machine without GPUs."""
    (diagnostic,) = devices(run_of(toy, *GPU))
    assert f"torch {torch.__version__} of {sys.prefix} sees 0" in diagnostic.message
    assert "scripts/setup_gpu.sh" in diagnostic.remedy
    monkeypatch.setenv("RAY_ADDRESS", "http://head:8265")  # whose nodes have environments of their own
    assert not list(devices(run_of(toy, *GPU)))


def test_a_flash_attn_that_does_not_import(toy, tmp_path, monkeypatch):
    """Installed, as pip and find_spec see it; its extension was built for another torch, or not at all."""
    package = tmp_path / "flash_attn"
    package.mkdir()
    (package / "__init__.py").write_text("import flash_attn_2_cuda\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.partition(".")[0] == "flash_attn"]:
        monkeypatch.delitem(sys.modules, name)
    said = "No module named 'flash_attn_2_cuda'"
    (diagnostic,) = flash_attention(run_of(toy, f"{MODEL}.override_config.attn_implementation=flash_attention_2"))
    assert diagnostic.level == "error"
    assert said in diagnostic.message
    assert "attention=sdpa" in diagnostic.remedy
    assert not list(flash_attention(run_of(toy)))  # profile=cpu, whose vocabulary is small


@pytest.mark.parametrize("name", sorted(LOGGERS))
def test_the_package_of_a_logger(toy, monkeypatch, name):
    run = run_of(toy, f"trainer.logger=[console,{name},file]")
    monkeypatch.setattr(importlib.util, "find_spec", lambda module: None if module == LOGGERS[name] else object())
    [error] = packages(run)
    assert (error.level, error.key) == ("error", "trainer.logger")
    assert LOGGERS[name] in error.message
    monkeypatch.setattr(importlib.util, "find_spec", lambda module: object())
    assert not list(packages(run))


def test_a_file_that_hides_a_library(toy, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = run_of(toy)
    for name in ("types.py", "datasets/__init__.py", "mine.py", "test.py", "sys.py", "torch/notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    errors = list(working_directory(run))
    assert [error.key for error in errors] == [str(tmp_path / name) for name in ("datasets/__init__.py", "types.py")]
    monkeypatch.syspath_prepend(str(tmp_path))  # as `python -m` has it
    assert len(list(working_directory(run))) == 2
    monkeypatch.chdir(Path(__file__).parents[2])
    assert not list(working_directory(run))
