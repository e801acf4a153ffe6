"""Every check of `rpg doctor` with a configuration that passes it and one that does not."""

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from unittest.mock import patch

import pytest

from rpg import plan
from rpg.checks import budgets, data, preflight
from rpg.checks import doctor_command as doctor
from rpg.cli import main
from rpg.config.compose import compose_config, resolve
from rpg.config.run_config import RunConfig
from rpg.data.parquet import repeated_rows, write_together
from rpg.data.toy import toy_problems
from rpg.diagnostics import ABSENT, Diagnostic
from rpg.names import ADVANTAGES
from tests.builders.toy_run import make_toy, run_of

ROOT = Path(__file__).parents[2]
R = "actor_rollout_ref.rollout"
BUCKET = f"{R}.checkpoint_engine.update_weights_bucket_megabytes"


@pytest.mark.parametrize(("memory", "level"), [(90e9, "ok"), (80e9, "error")])
def test_memory_against_a_device(memory, level):
    """Qwen3-4B on one device, offloaded between updates."""
    fsdp = "actor_rollout_ref.actor.fsdp_config"
    chosen = ["model=qwen3-4b", "context=2k", "rpg.script=x", "trainer.n_gpus_per_node=1"]
    offloaded = [f"{fsdp}.param_offload=true", f"{fsdp}.optimizer_offload=true"]
    made = RunConfig(resolve(compose_config([*chosen, *offloaded])[0]))
    assert budgets.fit(made, plan.MODELS["Qwen/Qwen3-4B"], memory).level == level


@pytest.mark.slow
@pytest.mark.parametrize(("model", "length"), [("qwen2.5-math-7b", 2), ("qwen2.5-7b-instruct", 4), ("qwen3-4b", 8)])
def test_the_numbers_of_each_context_follow_from_the_arithmetic(model, length):
    """config/context and config/model as in docs/settings.md: the cache holds max_num_seqs half-complete sequences."""
    run = RunConfig(resolve(compose_config([f"model={model}", f"context={length}k", "rpg.script=x"])[0]))
    shape = plan.shape_of(run["actor_rollout_ref.model.path"])
    assert shape is not None
    assert run[f"{R}.max_model_len"] == 2048 + length * 1024
    held = plan.kv_cache(shape, run, 80e9)[1] / (256 + length * 512)
    most = run[f"{R}.max_num_seqs"]
    assert most <= held
    assert held < most + 8 or most == 512  # above, vLLM has no CUDA graph


@pytest.mark.parametrize(("free", "bucket", "ranks", "is_short"), [
    (64, 128, 1, True),  # docker's /dev/shm
    (64, 16, 1, False),
    (64, 48, 2, True),
    (128, 128, 1, False),
])  # fmt: skip
def test_a_bucket_that_shared_memory_does_not_hold(tmp_path, monkeypatch, free, bucket, ranks, is_short):
    """100 MB of embeddings: a bucket never allocates more than the weights."""
    toy = make_toy(tmp_path)
    sizes = {"hidden_size": 1000, "num_hidden_layers": 1, "intermediate_size": 1, "num_attention_heads": 1,
             "vocab_size": 25_000, "tie_word_embeddings": True}  # fmt: skip
    (toy / "model" / "config.json").write_text(json.dumps(sizes))
    there = SimpleNamespace(free=free * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: {"/dev/shm": there}[path])
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    run = run_of(toy, f"{BUCKET}={bucket}", f"trainer.n_gpus_per_node={ranks}")
    assert sum("/dev/shm" in found.message for found in budgets.weight_bucket(run)) == is_short
    alone = list(budgets.weight_bucket(run_of(toy, "trainer.device=cuda", f"{BUCKET}={bucket}")))
    assert [found.level for found in alone] == ["warning"] * (bucket < 96)  # 95.4 MiB go by themselves


def shape_of_size(parameters: float) -> plan.Shape:
    """Return a shape with about `parameters` parameters in one embedding."""
    return plan.Shape(int(parameters / 1000), 0, 1, 1, 1, 1, 1000, True)


def test_disk(tmp_path, monkeypatch):
    """Uses the real disk: two checkpoints of 12 bytes per parameter must fit, of a resumed run those not yet there."""
    assert budgets.disk in preflight.CHECKS["cheap", "machine"]
    toy = make_toy(tmp_path)

    def refused(checkpoints: float, *more: str) -> bool:
        """Return whether a disk with space for this many is refused."""
        shape = shape_of_size(shutil.disk_usage(tmp_path).free / checkpoints / 12)
        monkeypatch.setattr(budgets, "_shape", lambda run: shape)
        found = list(budgets.disk(run_of(toy, "trainer.save_freq=20", *more)))
        assert [(error.key, error.level) for error in found] == [("trainer.default_local_dir", "error")] * len(found)
        return bool(found)

    assert [refused(held) for held in (2.5, 1.5)] == [False, True]
    assert not refused(1.5, "trainer.save_freq=-1")
    (toy / "run/global_step_20").mkdir(parents=True)
    assert not refused(1.5)
    assert refused(1.5, "trainer.resume_mode=disable")


@pytest.mark.parametrize(
    ("override", "level", "said"),
    [
        ("trainer.logger=[file,wandb]", "warning", "no W&B key"),
        ("+ray_kwargs.ray_init.runtime_env.env_vars.A=1", "error", "env_vars.A=1: must be text for Ray"),
    ],
)
def test_the_run_is_frozen_as_at_a_start(bare_environment, monkeypatch, override, level, said):
    monkeypatch.setattr(doctor, "plugin", lambda probe: Diagnostic("verl", ABSENT, "registered", level="ok"))
    found = [found for _, found in doctor.checked("grpo_cpu", [override]) if found.level != "ok"]
    assert (found[0].level, said in str(found[0])) == (level, True)


def test_data(tmp_path):
    run = run_of(make_toy(tmp_path))
    assert [diagnostic.level for diagnostic in data.rows(run)] == ["ok", "ok"]
    [problem] = toy_problems("train", seed=0, count=1)
    write_together({tmp_path / "test.parquet": repeated_rows([replace(problem, split="test")])})
    assert [diagnostic.level for diagnostic in data.rows(run)] == ["ok", "error"]


@pytest.mark.parametrize(
    ("probe", "level"),
    [
        (f"print('\\nPROBE' + {json.dumps([*doctor.LOSS_NAMES, *ADVANTAGES])!r})", "ok"),
        (f"print('\\nPROBE' + {json.dumps([*doctor.LOSS_NAMES])!r})", "error"),
        ("raise RuntimeError('broken plugin')", "error"),
        ("print('hello')", "error"),
    ],
)
def test_plugin_answers(probe, level):
    assert doctor.plugin(probe).level == level


def test_the_machine_is_described(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "plugin", lambda probe: Diagnostic("verl", ABSENT, "registered", level="ok"))
    assert main(["doctor"]) == 0
    first = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert first[:4] == ["packages", "CPU", "memory", "disk"]
    assert first[-1] == "1"  # check passed


@pytest.mark.full
@patch.dict(os.environ)
def test_on_a_launch_script(capsys, tmp_path, monkeypatch):
    """The whole command in this environment, on a toy script with missing files."""
    monkeypatch.setenv("TRAIN_FILE", str(tmp_path / "none.parquet"))
    script = ROOT / "recipe/rpg/cpu/run_rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28.sh"

    assert main(["doctor", str(script), "trainer.logger=[console]"]) == 1
    failed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("FAIL")]
    assert any(f"data.train_files={tmp_path / 'none.parquet'}" in line for line in failed)
    assert not any("plugin" in line or "verl" in line.partition(":")[0] for line in failed)
