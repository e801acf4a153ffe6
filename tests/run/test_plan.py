"""`rpg plan`: memory against traced runs, cache and host by hand, and the command."""

import copy
import functools
import json
import shutil
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from rpg import plan
from rpg.checks import machine
from rpg.cli import main
from rpg.config.compose import compose_config, resolve
from rpg.config.run_config import RunConfig

A, M = "actor_rollout_ref.actor", "actor_rollout_ref.model"
F = f"{A}.fsdp_config"
TINY = plan.Shape(hidden=8, layers=2, intermediate=16, heads=2, kv_heads=1, head_dim=4, vocabulary=10, tied=False)
KEPT, TEN = "trainer.max_actor_ckpt_to_keep", "trainer.total_training_steps=10"
QWEN3 = 4.022e9  # parameters of Qwen3-4B


@functools.cache
def composed(*groups: str) -> dict:
    return resolve(compose_config(["rpg.script=x", "method=rpg", "context=2k", *groups])[0])


def of(*overrides: str) -> RunConfig:
    """Return the configuration with these groups and keys; composing takes half a second."""
    keys = [text for text in overrides if "." in text.partition("=")[0]]
    config = OmegaConf.create(copy.deepcopy(composed(*(text for text in overrides if text not in keys))))
    return RunConfig(OmegaConf.to_container(OmegaConf.merge(config, OmegaConf.from_dotlist(keys))))  # type: ignore[arg-type]


def needed(place: str, *overrides: str) -> float:
    """Return the bytes of an update or a rollout on a GPU of 80 GB, or of a host."""
    run = of(*overrides)
    return sum(plan.needs(plan.MODELS[run[f"{M}.path"]], run, 80e9)[place].values())


# GB of an update that torch's FSDPMemTracker showed for transformers' model under FSDP2, AdamW and flash attention, on
# tensors without data, as one rank of so many (torch 2.11, transformers 5.5)
TRACED = [
    (["model=qwen2.5-math-7b"], 8, 26.83),
    (["model=qwen2.5-math-7b"], 16, 19.21),
    (["model=qwen3-4b", f"{A}.ppo_max_token_len_per_gpu=8192"], 1, 80.45),
    (["model=qwen3-4b", "profile=gpu_sdpa"], 8, 16.91),
]


@pytest.mark.parametrize(("overrides", "devices", "traced"), TRACED)
def test_memory_is_what_was_traced(overrides, devices, traced):
    held = needed("update", *overrides, f"trainer.n_gpus_per_node={devices}") - plan.RESERVE
    assert held == pytest.approx(traced * 1e9, rel=0.04)


@pytest.mark.parametrize(
    ("place", "changes", "each"),
    [
        ("update", [f"{M}.lora_rank=32"], -12),  # neither gradients nor two moments
        ("update", [f"{F}.offload_policy=true"], -16),
        ("rollout", [f"{F}.param_offload=true", f"{F}.optimizer_offload=true"], -12),
        ("host", [f"{F}.optimizer_offload=true"], 8 * 8),  # of 8 ranks
        ("host", ["reference=fixed"], 8 * 4),
        ("update", [f"{F}.fsdp_size=2"], 16 * (8 / 2 - 1)),  # HSDP: every group holds the model
    ],
)
def test_what_a_setting_adds_by_hand(place, changes, each):
    """In bytes of a parameter on one of 8 GPUs: fp32 weights and gradients of 4, two moments of 8."""
    added = needed(place, "model=qwen3-4b", *changes) - needed(place, "model=qwen3-4b")
    assert added == pytest.approx(each * QWEN3 / 8, rel=1e-3)


def test_tokens_of_the_cache_by_hand():
    """Qwen3-4B, 80 GB: 0.75 x 80e9 - 2 x 4.022e9 - 4e9 = 47.96e9 bytes; a token 2 x 2 x 36 x 8 x 128 = 147456."""
    size, tokens = plan.kv_cache(plan.MODELS["Qwen/Qwen3-4B"], of("model=qwen3-4b"), 80e9)
    assert (size, tokens) == pytest.approx((47.96e9, 47.96e9 / 147456), rel=1e-3)
    shape = plan.MODELS["Qwen/Qwen2.5-1.5B"]  # 2 heads of keys and values, which vLLM repeats on more devices
    parallel = [f"actor_rollout_ref.rollout.tensor_model_parallel_size={size}" for size in (2, 8)]
    held = [plan.kv_cache(shape, of("model=qwen2.5-math-7b", text), 80e9)[1] for text in parallel]
    assert held == pytest.approx([3.80e6, 3.88e6], rel=2e-3)


@pytest.mark.parametrize(
    ("changes", "each"),
    [
        ([], 24),  # two of fp32 weights and two moments
        (["rpg.reference.mode=every_k", "rpg.reference.every_k=2"], 32),
        ([f"{F}.model_dtype=bf16"], 12),
        (["trainer.save_freq=-1"], 0),
        ([f"{KEPT}=5", TEN, "trainer.save_freq=2"], 60),
        ([f"{KEPT}=null", TEN, "trainer.save_freq=2"], 60),
        ([f"{KEPT}=5", TEN, "trainer.save_freq=5"], 24),  # no more are saved
        (["trainer.default_local_dir={resumed}"], 12),  # one is there
        (["trainer.default_local_dir={resumed}", "trainer.resume_mode=disable"], 24),
    ],
)
def test_the_checkpoints_that_a_disk_must_hold_by_hand(changes, each, tmp_path, monkeypatch):
    """each: bytes per parameter that the disk must have."""
    (tmp_path / "global_step_20").mkdir()
    run = of("model=qwen2.5-math-7b", *(change.format(resumed=tmp_path) for change in changes))
    monkeypatch.setattr(machine, "shape_of", lambda _: TINY)
    for more, keys in ((0, []), (-1, ["trainer.default_local_dir"] * bool(each))):
        free = SimpleNamespace(free=each * TINY.parameters + more)
        monkeypatch.setattr(shutil, "disk_usage", lambda _, free=free: free)
        assert [found.key for found in machine.disk(run)] == keys


def test_what_cannot_be_planned(tmp_path, capsys):
    assert main(["plan", "rpg_7b_urkl1e-4", f"{M}.path=someone/else"]) == 2
    assert f"{M}.path=someone/else: has no config.json of a decoder" in capsys.readouterr().err
    experts = {"num_experts": 8, "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128,
               "num_attention_heads": 4, "vocab_size": 1000}  # fmt: skip
    (tmp_path / "config.json").write_text(json.dumps(experts))
    assert main(["plan", "rpg_7b_urkl1e-4", f"{M}.path={tmp_path}"]) == 2
