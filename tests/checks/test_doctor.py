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
from rpg.checks import budgets, data, doctor, preflight
from rpg.cli import main
from rpg.config.compose import compose_config, resolve
from rpg.config.keys import KEYS
from rpg.config.run_config import RunConfig
from rpg.data.parquet import repeated_rows, write_together
from rpg.data.toy import toy_problems
from rpg.diagnostics import ABSENT, Diagnostic
from rpg.names import ADVANTAGES
from tests.builders.toy_run import make_toy, run_of

ROOT = Path(__file__).parents[2]
R = "actor_rollout_ref.rollout"


@pytest.mark.parametrize(("memory", "level"), [(90e9, "ok"), (80e9, "error")])
def test_memory_against_a_device(memory, level):
    """Qwen3-4B on one device, offloaded between updates."""
    fsdp = "actor_rollout_ref.actor.fsdp_config"
    chosen = ["model=qwen3-4b", "context=2k", "rpg.script=x", "trainer.n_gpus_per_node=1"]
    offloaded = [f"{fsdp}.param_offload=true", f"{fsdp}.optimizer_offload=true"]
    made = RunConfig(resolve(compose_config([*chosen, *offloaded])))
    assert budgets.fit(made, plan.MODELS["Qwen/Qwen3-4B"], memory).level == level


@pytest.mark.parametrize(("kept", "advised"), [(2, False), (4, True)])
def test_a_full_disk_advises_fewer_checkpoints_only_if_there_are_more(monkeypatch, kept, advised):
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=1e9))
    chosen = ["model=qwen3-4b", "rpg.script=x", f"{KEYS['kept']}={kept}"]
    made = RunConfig(resolve(compose_config(chosen)))
    (found,) = budgets.checkpoints_fit(made, plan.MODELS["Qwen/Qwen3-4B"])
    assert found.level == "error"
    assert (f"{KEYS['kept']}=2" in found.remedy) is advised


@pytest.mark.slow
@pytest.mark.parametrize(("model", "length"), [("qwen2.5-math-7b", 2), ("qwen2.5-7b-instruct", 4), ("qwen3-4b", 8)])
def test_the_numbers_of_each_context_follow_from_the_arithmetic(model, length):
    """config/context and config/model as in docs/settings.md: the cache holds max_num_seqs half-complete sequences."""
    run = RunConfig(resolve(compose_config([f"model={model}", f"context={length}k", "rpg.script=x"])))
    shape = plan.shape_of(run.settings.model)
    assert shape is not None
    assert run.get(f"{R}.max_model_len") == 2048 + length * 1024
    held = plan.kv_cache(shape, run.settings, 80e9)[1] / (256 + length * 512)
    most = run.get(f"{R}.max_num_seqs")
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
    run = run_of(toy, f"{KEYS['bucket']}={bucket}", f"trainer.n_gpus_per_node={ranks}")
    assert sum("/dev/shm" in found.message for found in budgets.weight_bucket(run)) == is_short
    alone = list(budgets.weight_bucket(run_of(toy, "trainer.device=cuda", f"{KEYS['bucket']}={bucket}")))
    assert [found.level for found in alone] == ["warning"] * (bucket < 96)  # 95.4 MiB go by themselves


def shape_of_size(parameters: float) -> plan.Shape:
    """Return a shape with about `parameters` parameters in one embedding."""
    return plan.Shape(int(parameters / 1000), 0, 1, 1, 1, 1, 1000, True)


def test_disk(tmp_path):
    """Uses the real disk: how many checkpoints of 12 bytes per parameter fit; before Ray starts."""
    assert budgets.disk in preflight.CHECKS["cheap", "machine"]
    toy = make_toy(tmp_path)
    kept = ["trainer.max_actor_ckpt_to_keep=3", "trainer.total_training_steps=400", "trainer.save_freq=20"]

    def level(checkpoints: float, *more: str) -> str:
        """Return the level for a disk with space for this many."""
        shape = shape_of_size(shutil.disk_usage(tmp_path).free / checkpoints / 12)
        [diagnostic] = budgets.checkpoints_fit(run_of(toy, *kept, *more), shape)
        assert str(tmp_path) in diagnostic.message
        return diagnostic.level

    assert [level(held) for held in (3.5, 2.5, 1.5)] == ["ok", "warning", "error"]
    for step in (20, 40):  # a run that is started again removes what is there of it
        (toy / f"run/global_step_{step}").mkdir(parents=True)
    assert level(1.5) == "ok"
    assert level(1.5, "trainer.resume_mode=disable") == "error"


@pytest.mark.parametrize(
    ("override", "level", "said"),
    [
        ("trainer.logger=[file,wandb]", "warning", "no W&B key"),
        ("+ray_kwargs.ray_init.runtime_env.env_vars.A=1", "error", "env_vars.A=1: must be text for Ray"),
    ],
)
def test_the_run_is_frozen_as_at_a_start(bare_environment, monkeypatch, override, level, said):
    monkeypatch.setattr(doctor, "plugin", lambda name, probe: Diagnostic(name, ABSENT, "registered", level="ok"))
    found = doctor.check_all("grpo_cpu", [override], ray=False)
    assert next((level, said in text) for level, text in found if level != "ok") == (level, True)


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
    assert doctor.plugin("plugin", probe).level == level


def test_versions(monkeypatch):
    cpu_build = doctor.metadata.version("vllm").endswith("+cpu")  # elsewhere the pins of the GPU stack are met
    for device, level in (("cpu", "skip"), ("cuda", "warning"), (None, "skip")):
        found = list(doctor.versions(device))
        assert [diagnostic.level for diagnostic in found] == ["ok", level if cpu_build else "ok"]
    real = doctor.metadata.version
    monkeypatch.setattr(doctor.metadata, "version", lambda name: "5.6.0" if name == "transformers" else real(name))
    first, second = doctor.versions(None)
    assert (first.level, second.level) == ("error", "skip" if cpu_build else "warning")
    assert "transformers 5.6.0, wanted" in first.message


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


@pytest.mark.full
def test_plugin_in_a_ray_worker():
    assert doctor.plugin("plugin in a Ray worker", doctor.RAY_PROBE).level == "ok"
