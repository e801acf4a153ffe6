"""`rpg plan`: memory against traced runs, cache and host by hand, and the command."""

import copy
import functools
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from rpg import plan
from rpg.checks import machine
from rpg.cli import main
from rpg.config.compose import compose_config, resolve
from rpg.config.run_config import RunConfig

SMALL = {"model_type": "qwen2", "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128, "vocab_size": 1000,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 10240}  # fmt: skip
SCRIPT = "rpg_7b_urkl1e-4_rf_clip_ppo_0.2_0.28"
A, M = "actor_rollout_ref.actor", "actor_rollout_ref.model"
TINY = plan.Shape(hidden=8, layers=2, intermediate=16, heads=2, kv_heads=1, head_dim=4, vocabulary=10, tied=False)


@functools.cache
def composed(*groups: str) -> dict:
    return resolve(compose_config(["rpg.script=x", "method=rpg", "context=2k", *groups])[0])


def of(*overrides: str) -> RunConfig:
    """Return the configuration with these groups and keys; composing takes half a second."""
    keys = [text for text in overrides if "." in text.partition("=")[0]]
    config = OmegaConf.create(copy.deepcopy(composed(*(text for text in overrides if text not in keys))))
    return RunConfig(OmegaConf.to_container(OmegaConf.merge(config, OmegaConf.from_dotlist(keys))))  # type: ignore[arg-type]


def update(s: RunConfig) -> float:
    return sum(plan.update(plan.MODELS[s[f"{M}.path"]], s).values())


def rollout(s: RunConfig) -> float:
    return sum(plan.rollout(plan.MODELS[s[f"{M}.path"]], s, 80e9).values())


# GB of an update that torch's FSDPMemTracker showed for transformers' model under FSDP2, AdamW and flash attention, on
# tensors without data, as one rank of so many (torch 2.11, transformers 5.5)
TRACED = [
    (["model=qwen2.5-math-7b"], 8, 26.83),
    (["model=qwen2.5-math-7b"], 16, 19.21),
    (["model=qwen2.5-math-7b", f"{A}.ppo_max_token_len_per_gpu=8192"], 8, 22.65),
    (["model=qwen3-4b", f"{A}.ppo_max_token_len_per_gpu=8192"], 1, 80.45),
    (["model=qwen3-4b", f"{M}.enable_gradient_checkpointing=false"], 8, 115.64),
    (["model=qwen3-4b", "profile=gpu_sdpa"], 8, 16.91),
]


@pytest.mark.parametrize(("overrides", "devices", "traced"), TRACED)
def test_memory_is_what_was_traced(overrides, devices, traced):
    held = update(of(*overrides, f"trainer.n_gpus_per_node={devices}")) - plan.RESERVE
    assert held == pytest.approx(traced * 1e9, rel=0.04)


def test_lora_has_gradients_and_moments_of_the_adapter_alone():
    full, lora = (update(of("model=qwen3-4b", f"{M}.lora_rank={rank}")) for rank in (0, 32))
    model, adapter = 4.022e9, 32 * 36 * (2 * (2560 + 4096) + 2 * (2560 + 1024) + 3 * (2560 + 9728))
    assert full - lora == pytest.approx((12 * model - 16 * adapter) / 8, rel=1e-3)


def test_offloading_moves_the_state():
    """verl's switches offload during rollouts, offload_policy always."""
    fsdp = f"{A}.fsdp_config"
    plain = of("model=qwen3-4b")
    moved = of("model=qwen3-4b", f"{fsdp}.param_offload=true", f"{fsdp}.optimizer_offload=true")
    assert rollout(plain) - rollout(moved) == pytest.approx(12 * 4.022e9 / 8, rel=1e-3)  # weights and moments
    always = of("model=qwen3-4b", f"{fsdp}.offload_policy=true")
    assert update(plain) - update(always) == pytest.approx(16 * 4.022e9 / 8, rel=1e-3)


def test_tokens_of_the_cache_by_hand():
    """Qwen3-4B, 80 GB: 0.75 x 80e9 - 2 x 4.022e9 - 4e9 = 47.96e9 bytes; a token 2 x 2 x 36 x 8 x 128 = 147456."""
    size, tokens = plan.kv_cache(plan.MODELS["Qwen/Qwen3-4B"], of("model=qwen3-4b"), 80e9)
    assert (size, tokens) == pytest.approx((47.96e9, 47.96e9 / 147456), rel=1e-3)
    shape = plan.MODELS["Qwen/Qwen2.5-1.5B"]  # 2 heads of keys and values, which vLLM repeats on more devices
    parallel = [f"actor_rollout_ref.rollout.tensor_model_parallel_size={size}" for size in (2, 8)]
    held = [plan.kv_cache(shape, of("model=qwen2.5-math-7b", text), 80e9)[1] for text in parallel]
    assert held == pytest.approx([3.80e6, 3.88e6], rel=2e-3)


def test_memory_of_the_host():
    """8 ranks that each read Qwen3-4B in float32, 129 GB, and a fixed reference, 16 GB more."""
    parts = plan.host(plan.MODELS["Qwen/Qwen3-4B"], of("model=qwen3-4b", "reference=fixed"))
    assert list(parts.values()) == pytest.approx([8 * 4 * 4.022e9, 4 * 4.022e9, 0], rel=1e-3)


def test_every_group_of_hsdp_holds_the_model():
    plain, hsdp = (of("model=qwen3-4b", f"{A}.fsdp_config.fsdp_size={size}") for size in (-1, 2))
    model = 4.022e9
    assert update(hsdp) - update(plain) == pytest.approx(16 * model * (1 / 2 - 1 / 8), rel=1e-3)
    assert rollout(hsdp) - rollout(plain) == pytest.approx(12 * model * (1 / 2 - 1 / 8), rel=1e-3)


@pytest.mark.parametrize(
    ("changes", "each"),
    [
        ([], 12),  # fp32 weights, two moments
        (["rpg.reference.mode=every_k", "rpg.reference.every_k=2"], 16),
        ([f"{A}.fsdp_config.model_dtype=bf16"], 6),
        ([f"{A}.fsdp_config.fsdp_size=2"], 48),  # every group of 2 of the 8 ranks saves all
    ],
)
def test_two_checkpoints_by_hand(changes, each, monkeypatch):
    run = of("model=qwen2.5-math-7b", *changes)
    monkeypatch.setattr(machine, "_shape", lambda _: TINY)
    for more, count in ((0, 0), (-1, 1)):
        free = SimpleNamespace(free=2 * each * TINY.parameters + more)
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: free)
        assert len(list(machine.disk(run))) == count


@pytest.fixture
def small(tmp_path, monkeypatch) -> Path:
    """Return a model directory with only a configuration."""
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    monkeypatch.setenv("MODEL_PATH", str(tmp_path))
    return tmp_path


def test_one_gpu_of_a_size(monkeypatch, capsys):
    """The numbers are those of docs/train_your_own.md: a host of 34.4 GB."""
    monkeypatch.delenv("MODEL_PATH", raising=False)
    settings = ["method=grpo", "model=qwen3-1.7b", "dataset=gsm8k", "profile=one_gpu"]
    assert [main(["plan", *settings, f"rpg.gpu_memory={memory}"]) for memory in (24, 12)] == [0, 1]
    printed = capsys.readouterr().out
    assert (printed.count("DOES NOT FIT"), printed.count("34.4 GB a node")) == (1, 2)


def test_what_cannot_be_planned(small, capsys):
    assert main(["plan", SCRIPT, f"{M}.path=someone/else"]) == 2
    assert f"{M}.path=someone/else: has no config.json" in capsys.readouterr().err
    (small / "config.json").write_text(json.dumps({**SMALL, "num_experts": 8}))
    assert main(["plan", SCRIPT]) == 2
    assert f"{small / 'config.json'}: no estimate for this kind of model: " in capsys.readouterr().err
