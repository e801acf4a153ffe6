"""`rpg plan`: memory against traced runs, checkpoints and cache by hand, and the command."""

import copy
import functools
import json
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from rpg import plan
from rpg.cli import main
from rpg.config.compose import compose_config, resolve
from rpg.config.keys import Settings

SMALL = {"model_type": "qwen2", "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128, "vocab_size": 1000,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 10240}  # fmt: skip
SCRIPT = "rpg_7b_urkl1e-4_rf_clip_ppo_0.2_0.28"
A, M = "actor_rollout_ref.actor", "actor_rollout_ref.model"
TINY = plan.Shape(hidden=8, layers=2, intermediate=16, heads=2, kv_heads=1, head_dim=4, vocabulary=10, tied=False)


@functools.cache
def composed(*groups: str) -> dict:
    return resolve(compose_config(["rpg.script=x", "context=2k", *groups]))


def of(*overrides: str) -> Settings:
    """Return the settings with these groups and keys; composing takes half a second."""
    keys = [text for text in overrides if "." in text.partition("=")[0]]
    config = OmegaConf.create(copy.deepcopy(composed(*(text for text in overrides if text not in keys))))
    return Settings.of(OmegaConf.to_container(OmegaConf.merge(config, OmegaConf.from_dotlist(keys))))  # type: ignore[arg-type]


def update(s: Settings) -> float:
    return plan.update_bytes(plan.MODELS[s.model], s)


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


def test_an_adapter_has_the_parameters_that_peft_counts():
    from peft import LoraConfig, get_peft_model
    from transformers import Qwen2Config, Qwen2ForCausalLM

    sizes = {key: value for key, value in SMALL.items() if key != "model_type"}
    model = get_peft_model(Qwen2ForCausalLM(Qwen2Config(**sizes)), LoraConfig(r=4, target_modules="all-linear"))
    shape = plan.Shape(64, 2, 128, heads=4, kv_heads=2, head_dim=16, vocabulary=1000, tied=False)
    assert shape.adapter(4) == sum(weight.numel() for name, weight in model.named_parameters() if "lora_" in name)


def test_lora_has_gradients_and_moments_of_the_adapter_alone():
    full, lora = (update(of("model=qwen3-4b", f"{M}.lora_rank={rank}")) for rank in (0, 32))
    model, adapter = 4.022e9, 32 * 36 * (2 * (2560 + 4096) + 2 * (2560 + 1024) + 3 * (2560 + 9728))
    assert full - lora == pytest.approx((12 * model - 16 * adapter) / 8, rel=1e-3)


def test_the_entropy_of_old_log_probs_is_counted():
    """Three float32 copies of 32,768 x 152,064 logits: 3 x 19.93e9 bytes, beside 9.97e9 in bfloat16."""
    shape = plan.MODELS["Qwen/Qwen2.5-7B-Instruct"]
    eager, chunked = ["model=qwen2.5-7b-instruct", f"{A}.fsdp_config.use_torch_compile=false"], "entropy_from_logits"
    for changes, copies in (
        (eager, 3),
        (eager[:1], 0),
        ([*eager, f"{A}.fsdp_config.{chunked}_with_chunking=true"], 0),
        ([*eager, "algorithm.rollout_correction.bypass_mode=true"], 0),
        ([*eager, f"{M}.use_fused_kernels=true"], 0),
    ):
        assert plan.entropy_bytes(152064, of(*changes)) == copies * 4 * 152064
    phase, size = plan.device_bytes(shape, of(*eager), 80e9)
    weights_and_moments, embedding, logits = 12 * 7.616e9 / 8, 3 * 2 * 0.545e9, 9.97e9
    assert phase == "pass for old log-probs"
    by_hand = weights_and_moments + logits + 3 * 19.93e9 + embedding + plan.RESERVE
    assert size == pytest.approx(by_hand, rel=1e-3)  # 88 GB: does not fit


def test_offloading_moves_the_state():
    """verl's switches offload during rollouts, offload_policy always."""
    shape, fsdp = plan.MODELS["Qwen/Qwen3-4B"], f"{A}.fsdp_config"
    plain = of("model=qwen3-4b")
    moved = of("model=qwen3-4b", f"{fsdp}.param_offload=true", f"{fsdp}.optimizer_offload=true")
    (phase, held), (_, left) = (plan.device_bytes(shape, s, 80e9) for s in (plain, moved))
    assert phase == "rollout"
    assert held - left == pytest.approx(12 * 4.022e9 / 8, rel=1e-3)  # weights and moments
    always = of("model=qwen3-4b", f"{fsdp}.offload_policy=true")
    assert update(plain) - update(always) == pytest.approx(16 * 4.022e9 / 8, rel=1e-3)


def test_tokens_of_the_cache_by_hand():
    """Qwen3-4B, 80 GB: 0.75 x 80e9 - 2 x 4.022e9 - 4e9 = 47.96e9 bytes; a token 2 x 2 x 36 x 8 x 128 = 147456."""
    tokens = plan.kv_tokens(plan.MODELS["Qwen/Qwen3-4B"], of("model=qwen3-4b"), 80e9)
    assert tokens == pytest.approx(47.96e9 / 147456, rel=1e-3)
    shape = plan.MODELS["Qwen/Qwen2.5-1.5B"]  # 2 heads of keys and values, which vLLM repeats on more devices
    parallel = [f"actor_rollout_ref.rollout.tensor_model_parallel_size={size}" for size in (2, 8)]
    held = [plan.kv_tokens(shape, of("model=qwen2.5-math-7b", text), 80e9) for text in parallel]
    assert held == pytest.approx([3.80e6, 3.88e6], rel=2e-3)


def test_every_group_of_hsdp_holds_the_model():
    plain, hsdp = (of("model=qwen3-4b", f"{A}.fsdp_config.fsdp_size={size}") for size in (-1, 2))
    model = 4.022e9
    assert update(hsdp) - update(plain) == pytest.approx(16 * model * (1 / 2 - 1 / 8), rel=1e-3)
    (phase, held), (_, less) = (plan.device_bytes(plan.MODELS["Qwen/Qwen3-4B"], s, 80e9) for s in (hsdp, plain))
    assert (phase, held - less) == ("rollout", pytest.approx(12 * model * (1 / 2 - 1 / 8), rel=1e-3))
    assert plan.checkpoint_bytes(TINY, hsdp) == 4 * plan.checkpoint_bytes(TINY, plain)


def test_micro_batches_of_old_log_probs():
    dynamic = "actor_rollout_ref.rollout.log_prob_use_dynamic_bsz"
    rows = "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu"
    assert plan.log_prob_tokens(of("model=qwen3-4b")) == 32768
    assert plan.log_prob_tokens(of("model=qwen3-4b", f"{dynamic}=false", f"{rows}=3")) == 3 * 4096


@pytest.mark.parametrize(
    ("changes", "each", "at_once"),
    [
        ([], 12, 2),  # fp32 weights, two moments; two are kept
        (["trainer.max_actor_ckpt_to_keep=null"], 12, 20),  # 400 steps, every 20
        (["trainer.max_actor_ckpt_to_keep=1"], 12, 2),  # until the next is complete
        (["trainer.save_freq=-1"], 12, 0),
        (["trainer.save_freq=500"], 12, 1),  # the last step
        (["trainer.total_training_steps=null"], 12, 2),
        (["reference=fixed"], 12, 2),  # the model at the model's path
        (["reference=every_k"], 16, 2),
        ([f"{A}.fsdp_config.model_dtype=bf16"], 6, 2),
        ([f"{A}.checkpoint.save_contents=[model,hf_model]"], 8, 2),
    ],
)
def test_checkpoints_by_hand(changes, each, at_once):
    s = of("model=qwen2.5-math-7b", *changes)
    assert plan.checkpoint_bytes(TINY, s) == each * TINY.parameters
    assert plan.checkpoints_at_once(s) == at_once


@pytest.fixture
def small(tmp_path, monkeypatch) -> Path:
    """Return a model directory with only a configuration."""
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    monkeypatch.setenv("MODEL_PATH", str(tmp_path))
    return tmp_path


def test_the_command(small, capsys):
    assert main(["plan", SCRIPT]) == 0
    assert "GPUs: 8\n  GPU memory   " in capsys.readouterr().out
    assert main(["plan", SCRIPT, "reference=fixed", "--gpu", "a100-40", "--nodes", "2", "--json"]) == 0
    numbers = json.loads(capsys.readouterr().out)
    assert (numbers["gpus"], numbers["gpu_memory"], numbers["fits"]) == (16, 40e9, True)


@pytest.mark.parametrize(("memory", "code"), [(24, 0), (12, 1)])
def test_one_gpu_of_a_size(monkeypatch, capsys, memory, code):
    monkeypatch.delenv("MODEL_PATH", raising=False)
    assert main(["plan", "grpo_qwen3-1.7b", "--memory", str(memory)]) == code
    assert ("DOES NOT FIT" in capsys.readouterr().out) is bool(code)


def test_what_cannot_be_planned(small, capsys):
    assert main(["plan", SCRIPT, f"{M}.path=someone/else"]) == 2
    assert f"{M}.path=someone/else: has no config.json" in capsys.readouterr().err
    for content, said in (
        ("", "cannot be read"),
        (json.dumps({**SMALL, "num_attention_heads": 0}), "num_attention_heads=0 is not a size"),
        (json.dumps({**SMALL, "hidden_size": "64"}), "hidden_size='64' is not a size"),
    ):
        (small / "config.json").write_text(content)
        assert main(["plan", SCRIPT]) == 2
        assert f"{small / 'config.json'}: {said}" in capsys.readouterr().err
