"""What a run needs of memory and disk: estimates, each with its formula, from shapes and settings alone.

They tell a run that cannot fit from one that can; they do not replace a trial of a few steps.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rpg.verl_plugin.reference_settings import MOVING

GB = 1e9
BESIDE_KV = 4e9  # bytes of a device that vLLM takes beside weights and cache: activations, CUDA graphs; assumed
OUTSIDE_VLLM = 4e9  # and that two CUDA contexts, NCCL and the training process's allocator hold meanwhile; assumed


@dataclass(frozen=True)
class GPU:
    """One device, by its maker's data sheet: bytes, bytes a second, bf16 FLOPs a second without sparsity."""

    name: str
    memory: float
    bandwidth: float
    flops: float


# NVIDIA's data sheets of the SXM forms; the 80 GB ones show 85 GB (79.6 GiB), which leaves a margin here
GPUS = {
    "h100": GPU("H100 80 GB", 80e9, 3.35e12, 989e12),
    "h200": GPU("H200 141 GB", 141e9, 4.8e12, 989e12),
    "a100": GPU("A100 80 GB", 80e9, 2.039e12, 312e12),
}

# Shapes of the paper's models, for a machine that has not downloaded them (their published config.json).
_QWEN25_7B = {
    "model_type": "qwen2",
    "hidden_size": 3584,
    "num_hidden_layers": 28,
    "intermediate_size": 18944,
    "num_attention_heads": 28,
    "num_key_value_heads": 4,
    "vocab_size": 152064,
    "tie_word_embeddings": False,
}
MODELS: dict[str, dict[str, Any]] = {
    "Qwen/Qwen2.5-Math-7B": {**_QWEN25_7B, "max_position_embeddings": 4096},
    "Qwen/Qwen2.5-7B-Instruct": {**_QWEN25_7B, "max_position_embeddings": 32768},
    "Qwen/Qwen3-4B": {
        "model_type": "qwen3",
        "hidden_size": 2560,
        "num_hidden_layers": 36,
        "intermediate_size": 9728,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "head_dim": 128,
        "vocab_size": 151936,
        "tie_word_embeddings": True,
        "max_position_embeddings": 40960,
    },
}


@dataclass(frozen=True)
class Shape:
    """Of a decoder with gated MLP (Qwen, Llama, Mistral): what its memory follows from."""

    hidden: int
    layers: int
    intermediate: int
    heads: int
    kv_heads: int
    head_dim: int
    vocabulary: int
    tied: bool
    positions: int | None = None  # the longest sequence it was made for, where its config.json says so

    @property
    def parameters(self) -> int:
        """Embeddings once or twice, then attention, MLP and norms of every layer (biases are too few to count)."""
        attention = 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)
        layer = attention + 3 * self.hidden * self.intermediate + 2 * self.hidden
        return (1 if self.tied else 2) * self.vocabulary * self.hidden + self.layers * layer + self.hidden

    @property
    def largest(self) -> int:
        """Numbers in the largest weight: the embeddings, or a matrix of the MLP."""
        return self.hidden * max(self.vocabulary, self.intermediate)


def shape_of(model: str) -> Shape | None:
    """The shape of a local model directory, or of one of the paper's models by its hub name; else None.

    Raises:
        ValueError: config.json is there and lacks a size, or is no such file; names it, and the key.
    """
    file = Path(model).expanduser() / "config.json"
    if file.is_file():
        config = json.loads(file.read_text())
    elif model in MODELS:
        config = MODELS[model]
    else:
        return None
    if not isinstance(config, dict):
        raise ValueError(f"{file}: no sizes; no estimate for this kind of model")

    def size(key: str, otherwise: int | None = None) -> int:
        value = config.get(key)
        value = otherwise if value is None else value
        if type(value) is not int:
            raise ValueError(f"{file}: no {key} that is a whole number; no estimate for this kind of model")
        return value

    heads, hidden = size("num_attention_heads"), size("hidden_size")
    return Shape(
        hidden,
        size("num_hidden_layers"),
        size("intermediate_size"),
        heads,
        size("num_key_value_heads", heads),
        size("head_dim", hidden // heads),
        size("vocab_size"),
        config.get("tie_word_embeddings") is True,
        size("max_position_embeddings", 0) or None,
    )


@dataclass(frozen=True)
class Estimate:
    """A number of bytes and the formula that it came from, with the numbers in it."""

    size: float
    formula: str

    def __str__(self) -> str:
        return f"{self.size / GB:.3g} GB = {self.formula}"


def _batch_tokens(config: dict[str, Any]) -> int:
    """Tokens in one forward and backward pass on one device."""
    actor, data = config["actor_rollout_ref"]["actor"], config["data"]
    if actor["use_dynamic_bsz"]:
        return actor["ppo_max_token_len_per_gpu"]
    samples = actor.get("ppo_micro_batch_size_per_gpu") or actor.get("ppo_micro_batch_size") or 1
    return samples * (data["max_prompt_length"] + data["max_response_length"])


def training(shape: Shape, config: dict[str, Any], devices: int) -> Estimate:
    """Peak on one device in the actor's update: sharded fp32 state, activations of a micro-batch, its logits."""
    tokens = _batch_tokens(config)
    model = config["actor_rollout_ref"]["model"]
    offloaded = config["actor_rollout_ref"]["actor"]["fsdp_config"].get("offload_policy", False)
    state = 0 if offloaded else 16 * shape.parameters / devices
    # with checkpointing one hidden state a layer is kept, in bf16; without, about 17 of them (attention and MLP)
    per_layer = 1 if model.get("enable_gradient_checkpointing") else 17
    activations = 2 * tokens * shape.hidden * shape.layers * per_layer
    logits = 6 * tokens * shape.vocabulary
    formula = (
        f"16 B x {shape.parameters / 1e9:.3g}e9 parameters / {devices} (fp32 weights, gradients, two Adam moments)"
        f" + 2 B x {tokens} tokens x {shape.hidden} x {shape.layers} layers x {per_layer} (activations)"
        f" + 6 B x {tokens} x {shape.vocabulary} (logits, bf16 and fp32)"
    )
    return Estimate(state + activations + logits, formula)


def rollout(shape: Shape, config: dict[str, Any], devices: int, memory: float) -> Estimate:
    """Peak on one device while vLLM generates: its share of the memory beside the actor's sharded state."""
    fsdp = config["actor_rollout_ref"]["actor"]["fsdp_config"]
    share = config["actor_rollout_ref"]["rollout"]["gpu_memory_utilization"]
    weights = 0 if fsdp.get("param_offload") else 4
    moments = 0 if fsdp.get("optimizer_offload") else 8
    resident = (weights + moments) * shape.parameters / devices
    formula = (
        f"{share} x {memory / GB:.3g} GB (gpu_memory_utilization)"
        f" + {weights + moments} B x {shape.parameters / 1e9:.3g}e9 / {devices} (the actor's weights and moments)"
        f" + {OUTSIDE_VLLM / GB:.3g} GB (contexts, NCCL, allocator)"
    )
    return Estimate(share * memory + resident + OUTSIDE_VLLM, formula)


def _vllm_width(config: dict[str, Any]) -> int:
    return 4 if config["actor_rollout_ref"]["rollout"].get("dtype") in ("float32", "float") else 2


def kv_bytes(shape: Shape, config: dict[str, Any]) -> float:
    """Bytes of one token's key and value in all layers, on one device."""
    parallel = config["actor_rollout_ref"]["rollout"]["tensor_model_parallel_size"]
    return 2 * _vllm_width(config) * shape.layers * shape.kv_heads * shape.head_dim / parallel


def kv_tokens(shape: Shape, config: dict[str, Any], memory: float) -> float:
    """Tokens that the KV cache of a device of so many bytes holds: vLLM's share, less its weights and BESIDE_KV."""
    settings = config["actor_rollout_ref"]["rollout"]
    weights = _vllm_width(config) * shape.parameters / settings["tensor_model_parallel_size"]
    return (settings["gpu_memory_utilization"] * memory - weights - BESIDE_KV) / kv_bytes(shape, config)


def kv_sequences(shape: Shape, config: dict[str, Any], cache: float, weights_in_it: bool) -> tuple[float, str]:
    """How many sequences of full length the KV cache holds, and the formula.

    Args:
        cache: bytes that vLLM may take on one device. weights_in_it: whether its weights come out of them.
    """
    settings, data = config["actor_rollout_ref"]["rollout"], config["data"]
    parallel = settings["tensor_model_parallel_size"]
    width = _vllm_width(config)
    length = data["max_prompt_length"] + data["max_response_length"]
    per_token = kv_bytes(shape, config)
    weights = width * shape.parameters / parallel if weights_in_it else 0
    formula = (
        f"({cache / GB:.3g} GB - {weights / GB:.3g} GB weights)"
        f" / ({per_token / 1e3:.3g} kB a token x {length} tokens); "
        f"a token: 2 x {width} B x {shape.layers} layers x {shape.kv_heads} x {shape.head_dim} / {parallel}"
    )
    return (cache - weights) / (per_token * length), formula


def bytes_of(dtype: str | None) -> int:
    """Bytes of one number, by verl's name of its format."""
    return 2 if dtype in ("bf16", "bfloat16", "fp16", "float16", "half") else 4


def checkpoint(shape: Shape, config: dict[str, Any]) -> Estimate:
    """One checkpoint: weights, two moments, and a reference that moves (one that does not is not saved)."""
    actor = config["actor_rollout_ref"]["actor"]
    contents = (actor.get("checkpoint") or {}).get("save_contents") or ("model", "optimizer", "extra")
    width = bytes_of(actor["fsdp_config"].get("model_dtype"))
    mode = config.get("rpg", {}).get("reference", {}).get("mode", "old")
    parts = {
        "weights": width if "model" in contents else 0,
        "two Adam moments": 2 * width if "optimizer" in contents else 0,
        "reference": width if mode in MOVING else 0,
        "Hugging Face model": width if "hf_model" in contents else 0,
    }
    named = ", ".join(f"{name} {size}" for name, size in parts.items() if size)
    each = sum(parts.values())
    formula = f"{each} B x {shape.parameters / 1e9:.3g}e9 parameters (bytes: {named})"
    return Estimate(each * shape.parameters, formula)


def checkpoints_at_once(config: dict[str, Any]) -> int:
    """How many are on the disk at most; a run without a last step that keeps all counts as two."""
    trainer = config["trainer"]
    steps, every, kept = trainer["total_training_steps"], trainer["save_freq"], trainer.get("max_actor_ckpt_to_keep")
    if every <= 0:
        return 0
    most = max(kept, 2) if kept else None  # where one is kept, it stays until the next is complete
    if steps is None:
        return most or 2
    written = -(-steps // every)  # the last step is saved whatever it is
    return min(written, most) if most else written
