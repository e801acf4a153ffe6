"""Every check of `rpg doctor` with a configuration that passes it and one that does not."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest

from rpg import plan
from rpg.checks import doctor_command as doctor
from rpg.checks import machine
from rpg.cli import main
from rpg.config.compose import compose_config, resolve
from rpg.config.run_config import RunConfig
from rpg.names import ADVANTAGES
from tests.builders.toy_run import make_toy, run_of

ROOT = Path(__file__).parents[2]
R = "actor_rollout_ref.rollout"
BUCKET = f"{R}.checkpoint_engine.update_weights_bucket_megabytes"


@pytest.mark.parametrize(("memory", "fits"), [(90e9, True), (80e9, False)])
def test_memory_against_a_device(memory, fits):
    """Qwen3-4B on one device, offloaded between updates."""
    fsdp = "actor_rollout_ref.actor.fsdp_config"
    chosen = ["model=qwen3-4b", "context=2k", "rpg.script=x", "trainer.n_gpus_per_node=1"]
    offloaded = [f"{fsdp}.param_offload=true", f"{fsdp}.optimizer_offload=true"]
    made = RunConfig(resolve(compose_config([*chosen, *offloaded])[0]))
    assert plan.estimate(plan.MODELS["Qwen/Qwen3-4B"], made, memory)[0] == fits


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
def test_a_bucket_that_shared_memory_does_not_hold(toy, monkeypatch, free, bucket, ranks, is_short):
    """100 MB of embeddings: a bucket never allocates more than the weights."""
    there = SimpleNamespace(free=free * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: {"/dev/shm": there}[path])
    monkeypatch.setattr(machine, "_shape", lambda run: shape_of_size(25e6))
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    run = run_of(toy, f"{BUCKET}={bucket}", f"trainer.n_gpus_per_node={ranks}")
    assert [found.key for found in machine.shared_memory(run)] == ["/dev/shm"] * is_short


def shape_of_size(parameters: float) -> plan.Shape:
    """Return a shape with about `parameters` parameters in one embedding."""
    return plan.Shape(int(parameters / 1000), 0, 1, 1, 1, 1, 1000, True)


def test_disk(tmp_path, monkeypatch):
    """Uses the real disk: two checkpoints of 12 bytes per parameter must fit, of a resumed run those not yet there."""
    toy = make_toy(tmp_path)

    def refused(checkpoints: float, *more: str) -> bool:
        """Return whether a disk with space for this many is refused."""
        shape = shape_of_size(shutil.disk_usage(tmp_path).free / checkpoints / 12)
        monkeypatch.setattr(machine, "_shape", lambda run: shape)
        found = list(machine.disk(run_of(toy, "trainer.save_freq=20", *more)))
        assert [(error.key, error.level) for error in found] == [("trainer.default_local_dir", "error")] * len(found)
        return bool(found)

    assert [refused(held) for held in (2.5, 1.5)] == [False, True]
    assert not refused(1.5, "trainer.save_freq=-1")
    (toy / "run/global_step_20").mkdir(parents=True)
    assert not refused(1.5)
    assert refused(1.5, "trainer.resume_mode=disable")


def test_the_run_is_frozen_as_at_a_start(bare_environment, monkeypatch, capsys):
    monkeypatch.setattr(doctor, "plugin", lambda probe: [])
    monkeypatch.setattr(doctor, "CHECKS", {})
    assert main(["doctor", "grpo_cpu", "trainer.logger=[file,wandb]"]) == 0
    assert "warn  configuration: note: no W&B key" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("probe", "said"),
    [
        (f"print('\\nPROBE' + {json.dumps([*doctor.LOSS_NAMES])!r})", "does not register rpg, rpg_batchmean"),
        ("raise RuntimeError('broken plugin')", "RuntimeError: broken plugin"),
    ],
)
def test_plugin_answers(probe, said):
    (found,) = doctor.plugin(probe)
    assert said in str(found)
    assert not list(doctor.plugin(f"print('\\nPROBE' + {json.dumps([*doctor.LOSS_NAMES, *ADVANTAGES])!r})"))


def test_the_machine_is_described(capsys, monkeypatch):
    monkeypatch.setattr(doctor, "plugin", lambda probe: [])
    assert main(["doctor"]) == 0
    first = [line.split()[0] for line in capsys.readouterr().out.splitlines()]
    assert first[:4] == ["packages", "CPU", "memory", "disk"]
    assert first[-1] == "0"  # failed
