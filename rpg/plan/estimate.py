"""Shapes of models, data of GPUs, and estimates of checkpoint size and time; memory.py estimates device memory.

The estimates detect a run that cannot fit; they do not replace a trial of a few steps.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rpg.names import MOVING_REFERENCES as MOVING

GB = 1e9
MIB = 2**20
PROMPT = 256  # tokens of a problem in its template; assumed


@dataclass(frozen=True)
class GPU:
    """One device, from its data sheet: bytes, bytes per second, dense bf16 FLOPs per second."""

    name: str
    memory: float
    bandwidth: float
    flops: float


# NVIDIA's data sheets, SXM where there are several forms. The 80 GB GPUs report 85 GB (79.6 GiB), which leaves a margin
GPUS = {
    "h100": GPU("H100 80 GB", 80e9, 3.35e12, 989e12),
    "h200": GPU("H200 141 GB", 141e9, 4.8e12, 989e12),
    "a100": GPU("A100 80 GB", 80e9, 2.039e12, 312e12),
    "a100-40": GPU("A100 40 GB", 40e9, 1.555e12, 312e12),
    "l40s": GPU("L40S 48 GB", 48e9, 0.864e12, 362e12),
    "a6000": GPU("RTX A6000 48 GB", 48e9, 0.768e12, 155e12),
    "4090": GPU("RTX 4090 24 GB", 24e9, 1.008e12, 165e12),
}


@dataclass(frozen=True)
class Shape:
    """Shape of a decoder with gated MLP (Qwen, Llama, Mistral), from which its memory follows."""

    hidden: int
    layers: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool
    positions: int | None = None  # max_position_embeddings of its config.json, if given

    @property
    def parameters(self) -> int:
        """Number of parameters: embeddings once or twice, attention, MLP and norms of every layer; no biases."""
        return (1 if self.tied else 2) * self.embedding + self.layers * self.layer + self.hidden

    @property
    def layer(self) -> int:
        """Number of parameters of one layer."""
        attention = 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)
        return attention + 3 * self.hidden * self.intermediate + 2 * self.hidden

    @property
    def embedding(self) -> int:
        """Number of parameters of the embedding, and of the output layer."""
        return self.vocabulary * self.hidden

    def adapter(self, rank: int) -> int:
        """Return the parameters of LoRA of this rank on all linear layers but the output: rank x (inputs + outputs)."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        ends = 2 * (self.hidden + queries) + 2 * (self.hidden + keys) + 3 * (self.hidden + self.intermediate)
        return rank * self.layers * ends

    @property
    def largest(self) -> int:
        """Number of parameters of the largest weight: the embedding or an MLP matrix."""
        return self.hidden * max(self.vocabulary, self.intermediate)


# the models of our scripts, from their published config.json, in the order of Shape's fields
_QWEN25_7B = (3584, 28, 18944, 28, 4, 128, 152064, False)
_QWEN25_15B = (1536, 28, 8960, 12, 2, 128, 151936, True)
_QWEN25_05B = (896, 24, 4864, 14, 2, 64, 151936, True)
MODELS = {
    "Qwen/Qwen2.5-Math-7B": Shape(*_QWEN25_7B, positions=4096),
    "Qwen/Qwen2.5-7B-Instruct": Shape(*_QWEN25_7B, positions=32768),
    "Qwen/Qwen2.5-1.5B": Shape(*_QWEN25_15B, positions=131072),
    "Qwen/Qwen2.5-1.5B-Instruct": Shape(*_QWEN25_15B, positions=32768),
    "Qwen/Qwen2.5-0.5B": Shape(*_QWEN25_05B, positions=32768),
    "Qwen/Qwen2.5-0.5B-Instruct": Shape(*_QWEN25_05B, positions=32768),
    "Qwen/Qwen3-4B": Shape(2560, 36, 9728, 32, 8, 128, 151936, True, positions=40960),
    "Qwen/Qwen3-1.7B": Shape(2048, 28, 6144, 16, 8, 128, 151936, True, positions=40960),
    "Qwen/Qwen3-0.6B": Shape(1024, 28, 3072, 16, 8, 128, 151936, True, positions=40960),
}


def shape_of(model: str) -> Shape | None:
    """Return the shape of a local model directory, or of one of MODELS by its hub name; else None.

    Raises:
        ValueError: config.json cannot be read or lacks a size, or the model is a mixture of experts; names the file.
    """
    file = Path(model).expanduser() / "config.json"
    if not file.is_file():
        return MODELS.get(model)
    config = json.loads(file.read_text())
    if not isinstance(config, dict) or config.get("num_experts") or config.get("num_local_experts"):
        raise ValueError(f"{file}: no estimate for this kind of model")

    def size(key: str, default: int | None = None) -> int:
        value = default if config.get(key) is None else config[key]
        if type(value) is not int:
            raise ValueError(f"{file}: {key}={value} must be an integer; no estimate for this kind of model")
        return value

    heads, hidden = size("num_attention_heads"), size("hidden_size")
    return Shape(
        hidden, size("num_hidden_layers"), size("intermediate_size"), heads, size("num_key_value_heads", heads),
        size("head_dim", hidden // heads), size("vocab_size"), config.get("tie_word_embeddings") is True,
        size("max_position_embeddings", 0) or None,
    )  # fmt: skip


def trained_parameters(shape: Shape, config: dict[str, Any]) -> int:
    """Return the number of parameters with a gradient: the adapter's with LoRA, else all."""
    rank = config["actor_rollout_ref"]["model"].get("lora_rank")
    return shape.adapter(rank) if rank else shape.parameters


def all_parameters(shape: Shape, config: dict[str, Any]) -> int:
    """Return the number of parameters of the model and of an adapter."""
    rank = config["actor_rollout_ref"]["model"].get("lora_rank")
    return shape.parameters + (shape.adapter(rank) if rank else 0)


def bytes_of(dtype: str | None) -> int:
    """Return the bytes per number of verl's data type name."""
    return 2 if dtype in ("bf16", "bfloat16", "fp16", "float16", "half") else 4


def checkpoint_bytes(shape: Shape, config: dict[str, Any]) -> float:
    """Return the bytes of one checkpoint: weights, two moments, and a moving reference (a fixed one is not saved)."""
    actor = config["actor_rollout_ref"]["actor"]
    contents = (actor.get("checkpoint") or {}).get("save_contents") or ("model", "optimizer", "extra")
    mode = config.get("rpg", {}).get("reference", {}).get("mode", "old")
    copies = ("model" in contents) + ("hf_model" in contents) + (mode in MOVING)
    moments = 2 * ("optimizer" in contents)
    numbers = copies * all_parameters(shape, config) + moments * trained_parameters(shape, config)
    return numbers * bytes_of(actor["fsdp_config"].get("model_dtype"))


def checkpoints_at_once(config: dict[str, Any]) -> int:
    """Return the maximal number of checkpoints on the disk; 2 for a run without a last step that keeps all.

    A run that only validates saves none.
    """
    trainer = config["trainer"]
    steps, every, kept = trainer["total_training_steps"], trainer["save_freq"], trainer.get("max_actor_ckpt_to_keep")
    if every <= 0 or trainer.get("val_only"):
        return 0
    most = max(kept, 2) if kept else None  # the old one stays until the next is complete
    if steps is None:
        return most or 2
    written = -(-steps // every)  # the last step is always saved
    return min(written, most) if most else written


def has_reference(config: dict[str, Any]) -> bool:
    """Return whether a reference computes log-probs: ours, or verl's for its KL terms (the base model with LoRA)."""
    mode = config.get("rpg", {}).get("reference", {}).get("mode", "old")
    actor, algorithm = config["actor_rollout_ref"]["actor"], config["algorithm"]
    return mode != "old" or actor["use_kl_loss"] or algorithm["use_kl_in_reward"]


# fast and slow assumptions: mean response / longest response, share of a GPU's FLOPs, share of its bandwidth.
# 0.43 is Llama 3's on 8k H100s (arXiv 2407.21783, table 4)
RATES = ((0.35, 0.43, 0.7), (0.8, 0.25, 0.5))


def step_seconds(
    shape: Shape, config: dict[str, Any], gpu: GPU, devices: int, rates: tuple[float, float, float]
) -> float:
    """Return the seconds of a step at one of RATES: generation, log-probs and update, no validation or checkpoints."""
    data, rollout = config["data"], config["actor_rollout_ref"]["rollout"]
    share, flops, bandwidth = rates
    response = share * data["max_response_length"]
    sequences, length = data["train_batch_size"] * rollout["n"] / devices, PROMPT + response
    # A pass takes two FLOPs per parameter and token. The update has three passes (two with LoRA, which needs no weight
    # gradients), and one more with checkpointing
    model = config["actor_rollout_ref"]["model"]
    passes = 4 - bool(model.get("lora_rank")) + has_reference(config) + bool(model.get("enable_gradient_checkpointing"))
    computed = passes * 2 * shape.parameters * sequences * length / (flops * gpu.flops)
    # a decoding step reads all weights and the cache of every sequence; the longest responses finish alone
    steps = sequences * response / min(rollout["max_num_seqs"], sequences) + data["max_response_length"]
    cache = sequences * response * (PROMPT + response / 2) * 4 * shape.layers * shape.kv_heads * shape.head_dim
    return computed + (steps * 2 * shape.parameters + cache) / (bandwidth * gpu.bandwidth)
