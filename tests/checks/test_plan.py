"""`rpg plan`: memory against traced runs, time by hand, and the command on launch scripts."""

import copy
import functools
import importlib.util
import json
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from rpg.cli import main
from rpg.config.compose import compose_config, resolve
from rpg.diagnostics import fitted
from rpg.plan import estimate, memory
from rpg.plan.run_plan import INDENT

SMALL = {"model_type": "qwen2", "hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 128, "vocab_size": 1000,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 10240}  # fmt: skip
SCRIPT = "rpg_7b_urkl1e-4_rf_clip_ppo_0.2_0.28"
A, M, R = (f"actor_rollout_ref.{name}" for name in ("actor", "model", "rollout"))
ROOT = Path(__file__).parents[2]
TINY = estimate.Shape(hidden=8, layers=2, intermediate=16, heads=2, kv_heads=1, head_dim=4, vocabulary=10, tied=False)


@functools.cache
def composed(*groups: str) -> dict:
    return resolve(compose_config(["rpg.script=x", "context=2k", *groups])).config


def of(*overrides: str) -> dict:
    """Return the configuration with these groups and keys; composing takes half a second."""
    keys = [text for text in overrides if "." in text.partition("=")[0]]
    config = OmegaConf.create(copy.deepcopy(composed(*(text for text in overrides if text not in keys))))
    return OmegaConf.to_container(OmegaConf.merge(config, OmegaConf.from_dotlist(keys)))  # type: ignore[return-value]


def phases(config: dict, devices: int) -> dict[str, memory.Phase]:
    shape = estimate.shape_of(config["actor_rollout_ref"]["model"]["path"])
    assert shape is not None
    return {phase.name: phase for phase in memory.phases(shape, config, devices, 80e9)}


# GB of log-probs and update that torch's FSDPMemTracker showed for transformers' model under FSDP2, AdamW and flash
# attention, on tensors without data, as one rank of so many (torch 2.11, transformers 5.5)
TRACED = [
    (["model=qwen2.5-math-7b"], 8, 24.04, 26.83),
    (["model=qwen2.5-math-7b"], 16, 18.33, 19.21),
    (["model=qwen2.5-math-7b", f"{A}.ppo_max_token_len_per_gpu=8192"], 8, 24.04, 22.65),
    (["model=qwen2.5-math-7b", f"{M}.use_fused_kernels=true"], 8, 17.04, 26.83),
    (["model=qwen3-4b"], 8, 17.31, 18.23),
    (["model=qwen3-4b", f"{A}.ppo_max_token_len_per_gpu=8192"], 1, 59.34, 80.45),
    (["model=qwen3-4b", f"{M}.enable_gradient_checkpointing=false"], 8, 17.14, 115.64),
    (["model=qwen3-4b", "profile=gpu_sdpa"], 8, 11.96, 16.91),
]


@pytest.mark.parametrize(("overrides", "devices", "log_probs", "update"), TRACED)
def test_memory_is_what_was_traced(overrides, devices, log_probs, update):
    planned = phases(of(*overrides), devices)
    assert planned["log-probs"].size - memory.OUTSIDE == pytest.approx(log_probs * 1e9, rel=0.02)
    assert planned["update"].size - memory.OUTSIDE == pytest.approx(update * 1e9, rel=0.04)


def test_an_adapter_has_the_parameters_that_peft_counts():
    from peft import LoraConfig, get_peft_model
    from transformers import Qwen2Config, Qwen2ForCausalLM

    sizes = {key: value for key, value in SMALL.items() if key != "model_type"}
    model = get_peft_model(Qwen2ForCausalLM(Qwen2Config(**sizes)), LoraConfig(r=4, target_modules="all-linear"))
    shape = estimate.Shape(64, 2, 128, heads=4, kv_heads=2, head_dim=16, vocabulary=1000, tied=False)
    assert shape.adapter(4) == sum(weight.numel() for name, weight in model.named_parameters() if "lora_" in name)


def test_lora_has_gradients_and_moments_of_the_adapter_alone():
    full, lora = (phases(of("model=qwen3-4b", f"{M}.lora_rank={rank}"), 1)["update"].terms for rank in (0, 32))
    adapter = 32 * 36 * (2 * (2560 + 4096) + 2 * (2560 + 1024) + 3 * (2560 + 9728))
    assert lora["moments"] == 8 * adapter
    assert lora["weights"] - full["weights"] == pytest.approx(4 * adapter)
    base = phases(of("model=qwen3-4b", f"{M}.lora_rank=32", "reference=fixed"), 1)["update"].terms
    assert base == lora


def test_offloading_moves_the_state():
    """verl's switches offload between updates, offload_policy always."""
    plain = phases(of("model=qwen3-4b"), 8)
    fsdp = f"{A}.fsdp_config"
    moved = phases(of("model=qwen3-4b", f"{fsdp}.param_offload=true", f"{fsdp}.optimizer_offload=true"), 8)
    state = 12 * 4.022e9 / 8  # weights and moments
    assert plain["rollout"].size - moved["rollout"].size == pytest.approx(state, rel=1e-3)
    assert moved["update"].size == plain["update"].size
    always = phases(of("model=qwen3-4b", f"{fsdp}.offload_policy=true"), 8)
    assert plain["update"].size - always["update"].size == pytest.approx(state * 16 / 12, rel=1e-3)


@pytest.mark.parametrize(("name", "billions"), [("Qwen/Qwen2.5-Math-7B", 7.62), ("Qwen/Qwen3-4B", 4.02)])
def test_parameters_of_the_papers_models(name, billions):
    """As published on the models' pages."""
    shape = estimate.shape_of(name)
    assert shape is not None
    assert shape.parameters / 1e9 == pytest.approx(billions, abs=0.01)


def test_tokens_of_the_cache_by_hand():
    """Qwen3-4B, 80 GB: 0.75 x 80e9 - 2 x 4.022e9 - 4e9 = 47.96e9 bytes; a token 2 x 2 x 36 x 8 x 128 = 147456."""
    shape = estimate.shape_of("Qwen/Qwen3-4B")
    assert shape is not None
    assert memory.kv_tokens(shape, of("model=qwen3-4b"), 80e9) == pytest.approx(47.96e9 / 147456, rel=1e-3)


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
    config = of("model=qwen2.5-math-7b", *changes)
    assert estimate.checkpoint_bytes(TINY, config) == each * TINY.parameters
    assert estimate.checkpoints_at_once(config) == at_once


def test_time_by_hand():
    """Qwen3-4B at 2k on 8 H100s, the fast end: one step's arithmetic, written out; a reference is one more pass."""
    config, gpu = of("model=qwen3-4b"), estimate.GPUS["h100"]
    shape = estimate.shape_of("Qwen/Qwen3-4B")
    assert shape is not None
    answers, response = 512 * 16 / 8, 0.35 * 2048
    # log-probs, forward, again for checkpointing, and twice for backward; 0.43 of 989 TFLOP/s
    one_pass = 2 * shape.parameters * answers * (256 + response) / (0.43 * 989e12)
    # 248 at once (max_num_seqs); all weights a decoding step in bf16, and the cache; 0.7 of 3.35 TB/s
    weights = (answers * response / 248 + 2048) * 2 * shape.parameters
    cache = answers * response * (256 + response / 2) * 2 * 2 * 36 * 8 * 128
    seconds = estimate.step_seconds(shape, config, gpu, 8, estimate.RATES[0])
    assert seconds == pytest.approx(5 * one_pass + (weights + cache) / (0.7 * 3.35e12))
    fixed = estimate.step_seconds(shape, of("model=qwen3-4b", "reference=fixed"), gpu, 8, estimate.RATES[0])
    assert fixed - seconds == pytest.approx(one_pass)


@pytest.fixture
def small(tmp_path, monkeypatch) -> Path:
    """Return a model directory with only a configuration."""
    (tmp_path / "config.json").write_text(json.dumps(SMALL))
    monkeypatch.setenv("MODEL_PATH", str(tmp_path))
    return tmp_path


def test_the_command(small, capsys):
    assert main(["plan", SCRIPT]) == 0
    out = capsys.readouterr().out
    assert "on 8 x H100 80 GB" in out
    for phase in ("load", "rollout", "log-probs", "update", "weight synchronisation"):
        assert f"\n  {phase} " in out
    assert main(["plan", SCRIPT, "reference=fixed", "--gpu", "a100", "--nodes", "2"]) == 0
    assert "on 16 x A100 80 GB" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("name", "memory", "code"),
    [
        ("qwen3-1.7b", 24, 0),
        ("qwen3-1.7b", 12, 1),
    ],
)
def test_one_gpu_of_a_size(monkeypatch, capsys, name, memory, code):
    monkeypatch.delenv("MODEL_PATH", raising=False)
    assert main(["plan", f"grpo_{name}", "--memory", str(memory)]) == code
    assert ("DOES NOT FIT" in capsys.readouterr().out) is bool(code)


@pytest.mark.slow
def test_the_page_has_the_commands_table(monkeypatch):
    monkeypatch.delenv("MODEL_PATH", raising=False)
    spec = importlib.util.spec_from_file_location("plan_table", ROOT / "scripts/plan_table.py")
    assert spec is not None
    assert spec.loader is not None
    plan_table = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plan_table)
    page = (ROOT / "docs/train_your_own.md").read_text()
    assert f"{plan_table.BEGIN}{plan_table.one_gpu()}{plan_table.END}" in page, "python scripts/plan_table.py"


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        ([f"{M}.path=someone/else"], f"{M}.path=someone/else"),
        ([f"{R}.n=0"], f"{R}.n=0"),
    ],
)
def test_what_cannot_be_planned(small, capsys, overrides, key):
    assert main(["plan", SCRIPT, *overrides]) == 2
    ended = capsys.readouterr()
    assert ended.out == ""
    assert key in ended.err


def test_eighty_columns_fold_between_terms(monkeypatch):
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")
    terms = " + ".join(f"{number} of a term" for number in range(12))
    first, *rest = next(fitted([f"  update{' ' * 18}31 GB = {terms}\nfits"], INDENT)).split("\n")
    assert rest
    assert all(line[:26].isspace() and not line[26].isspace() for line in rest)
    assert " ".join(" ".join([first, *rest]).split()) == f"update 31 GB = {terms}"
    assert max(map(len, [first, *rest])) <= 80
