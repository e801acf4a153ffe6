"""Needs of a run from its model's shape and settings: parameters, memory, KV cache, checkpoints.

The estimates detect a run that cannot fit; they do not replace a trial of a few steps. docs/gpu.md compares two of an
update with a GPU.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rpg.diagnostics import BadSetting
from rpg.names import MOVING_REFERENCES

GB = 1e9
MIB = 2**20
RESERVE = 4e9  # bytes of a device for CUDA contexts, NCCL, fragments, and vLLM's CUDA graphs; assumed


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
        attention = 2 * self.hidden * self.head_dim * (self.heads + self.kv_heads)
        layer = attention + 3 * self.hidden * self.intermediate + 2 * self.hidden
        return (1 if self.tied else 2) * self.vocabulary * self.hidden + self.layers * layer + self.hidden

    def adapter(self, rank: int) -> int:
        """Return the parameters of LoRA of this rank on all linear layers but the output: rank x (inputs + outputs)."""
        queries, keys = self.heads * self.head_dim, self.kv_heads * self.head_dim
        ends = 2 * (self.hidden + queries) + 2 * (self.hidden + keys) + 3 * (self.hidden + self.intermediate)
        return rank * self.layers * ends

    @property
    def largest(self) -> int:
        """Number of parameters of the largest weight: the embedding or an MLP matrix."""
        return self.hidden * max(self.vocabulary, self.intermediate)


# the models of our names, from their published config.json, in the order of Shape's fields
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
    try:
        config = json.loads(file.read_bytes())
    except (OSError, ValueError, RecursionError) as error:
        raise BadSetting(f"{file}: cannot be read: {error}; copy the model again") from error
    if not isinstance(config, dict) or config.get("num_experts") or config.get("num_local_experts"):
        raise BadSetting(f"{file}: no estimate for this kind of model")

    def size(key: str, default: int | None = None) -> int:
        value = default if config.get(key) is None else config[key]
        if type(value) is not int or not (0 < value < 10**9 or value == default):
            raise BadSetting(f"{file}: {key}={value!r:.40} is not a size; no estimate for this kind of model")
        return value

    heads, hidden = size("num_attention_heads"), size("hidden_size")
    return Shape(
        hidden, size("num_hidden_layers"), size("intermediate_size"), heads, size("num_key_value_heads", heads),
        size("head_dim", hidden // heads), size("vocab_size"), config.get("tie_word_embeddings") is True,
        size("max_position_embeddings", 0) or None,
    )  # fmt: skip


def bytes_of(dtype: str | None) -> int:
    """Return the bytes per number of verl's data type name."""
    return 2 if dtype in ("bf16", "bfloat16", "fp16", "float16", "half") else 4


def _state(shape: Shape, config: dict[str, Any]) -> tuple[int, int]:
    """Return the bytes of all weights, and of AdamW's two moments; with LoRA only the adapter has moments."""
    section = config["actor_rollout_ref"]
    width = bytes_of(section["actor"]["fsdp_config"].get("model_dtype"))
    rank = section["model"].get("lora_rank")
    adapter = shape.adapter(rank) if rank else 0
    return width * (shape.parameters + adapter), 2 * width * (adapter or shape.parameters)


def copies(config: dict[str, Any]) -> int:
    """Return how often FSDP holds the model: once, or once in each group of fsdp_size ranks (HSDP)."""
    devices = config["trainer"]["n_gpus_per_node"] * config["trainer"]["nnodes"]
    size = config["actor_rollout_ref"]["actor"]["fsdp_config"].get("fsdp_size", -1)
    return devices // size if 0 < size < devices else 1


def checkpoint_bytes(shape: Shape, config: dict[str, Any]) -> int:
    """Return the bytes of one checkpoint: weights, two moments, and a moving reference (a fixed one is not saved).

    Every rank writes its shards; an export (hf_model) is written once.
    """
    weights, moments = _state(shape, config)
    checkpoint = config["actor_rollout_ref"]["actor"].get("checkpoint") or {}
    contents = checkpoint.get("save_contents") or ("model", "optimizer", "extra")
    mode = config.get("rpg", {}).get("reference", {}).get("mode", "old")
    models = ("model" in contents) + (mode in MOVING_REFERENCES)
    shards = models * weights + ("optimizer" in contents) * moments
    return copies(config) * shards + ("hf_model" in contents) * weights


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


def _tokens(config: dict[str, Any], rows: int, budget: int | None, size: int | None) -> int:
    """Return the tokens of a micro-batch of at most `rows` responses: within a budget, or else of `size` responses."""
    length = config["data"]["max_prompt_length"] + config["data"]["max_response_length"]
    return min(budget, rows * length) if budget else min(size or 1, rows) * length


def update_bytes(shape: Shape, config: dict[str, Any], devices: int) -> float:
    """Return the peak bytes of one of `devices` devices in an update under FSDP2, RESERVE included.

    Sharded weights, gradients and moments; the hidden states that gradient checkpointing keeps, or all activations; and
    the larger of the logits of a micro-batch and a layer's backward, with the weights gathered for it; or AdamW's
    temporaries. Without flash-attn, torch's fp32 copy of the logits and attention over tokens x tokens.
    """
    actor, rollout, model = (config["actor_rollout_ref"][name] for name in ("actor", "rollout", "model"))
    weights, moments = _state(shape, config)
    shards = devices / copies(config)
    state = 0 if actor["fsdp_config"].get("offload_policy") else (weights + 1.5 * moments) / shards
    rows = max(actor["ppo_mini_batch_size"] * rollout["n"] // devices, 1)
    budget = actor["ppo_max_token_len_per_gpu"] if actor["use_dynamic_bsz"] else None
    tokens = _tokens(config, rows, budget, actor.get("ppo_micro_batch_size_per_gpu"))
    width = bytes_of((actor["fsdp_config"].get("mixed_precision") or {}).get("param_dtype") or "bf16")
    flash = (model.get("override_config") or {}).get("attn_implementation") == "flash_attention_2"
    kept, again = shape.hidden, 4 * shape.intermediate + 5 * shape.hidden
    if not model.get("enable_gradient_checkpointing"):
        kept, again = 4 * shape.intermediate + (18 if width == 2 else 8) * shape.hidden, 0
    layer = again + 3 * shape.intermediate + shape.hidden + 6 * shape.heads * shape.head_dim
    logits = 0 if model.get("use_fused_kernels") else shape.vocabulary * (width + (0 if flash else 4))
    peak = tokens * max(logits + 5 * width * shape.hidden, width * layer) + 3 * width * shape.largest
    mask = width * tokens**2 if model.get("use_remove_padding") and not flash else 0
    step = state and moments / shards / 2  # of the optimizer
    return state + max(tokens * width * kept * shape.layers + mask + peak, step) + RESERVE


def entropy_bytes(vocabulary: int, config: dict[str, Any]) -> int:
    """Return the bytes per token that the entropy adds to the logits in verl's pass for old log-probs.

    verl always computes it there. Without torch.compile, chunks or the fused kernel these are three float32 copies:
    autocast's of the logits, the softmax, and the temporary of logsumexp or of the product.
    """
    section = config["actor_rollout_ref"]
    fsdp = section["actor"]["fsdp_config"]
    skipped = config["algorithm"].get("rollout_correction", {}).get("bypass_mode")  # then there is no such pass
    lean = fsdp.get("use_torch_compile") or fsdp.get("entropy_from_logits_with_chunking")
    return 0 if skipped or lean or section["model"].get("use_fused_kernels") else 3 * 4 * vocabulary


def log_prob_tokens(config: dict[str, Any], devices: int) -> int:
    """Return the tokens of a micro-batch of one of `devices` devices in the pass for old log-probs."""
    rollout = config["actor_rollout_ref"]["rollout"]
    rows = -(-config["data"]["train_batch_size"] * rollout["n"] // devices)
    budget = rollout["log_prob_max_token_len_per_gpu"] if rollout["log_prob_use_dynamic_bsz"] else None
    return _tokens(config, rows, budget, rollout.get("log_prob_micro_batch_size_per_gpu"))


def log_prob_bytes(shape: Shape, config: dict[str, Any], devices: int) -> float:
    """Return the peak bytes of a device in the pass for old log-probs, RESERVE included: no gradients are kept."""
    section, fsdp = config["actor_rollout_ref"], config["actor_rollout_ref"]["actor"]["fsdp_config"]
    weights, moments = _state(shape, config)
    state = 0 if fsdp.get("offload_policy") else weights + (0 if fsdp.get("optimizer_offload") else moments)
    width = bytes_of((fsdp.get("mixed_precision") or {}).get("param_dtype") or "bf16")
    layer = width * (3 * shape.intermediate + shape.hidden + 6 * shape.heads * shape.head_dim)
    logits = 0 if section["model"].get("use_fused_kernels") else width * shape.vocabulary
    peak = log_prob_tokens(config, devices) * max(logits + entropy_bytes(shape.vocabulary, config), layer)
    return state * copies(config) / devices + peak + 3 * width * shape.largest + RESERVE


def device_bytes(shape: Shape, config: dict[str, Any], devices: int, memory: float) -> tuple[str, float]:
    """Return the part of a step that needs most of a device with `memory` bytes, and its bytes.

    During rollouts vLLM's share is beside the weights and moments that are not offloaded.
    """
    weights, moments = _state(shape, config)
    fsdp = config["actor_rollout_ref"]["actor"]["fsdp_config"]
    kept = (0 if fsdp.get("param_offload") else weights) + (0 if fsdp.get("optimizer_offload") else moments)
    share = config["actor_rollout_ref"]["rollout"]["gpu_memory_utilization"] * memory
    rollout = share + (0 if fsdp.get("offload_policy") else kept * copies(config) / devices) + RESERVE
    parts = {"update": update_bytes(shape, config, devices), "rollout": rollout}
    parts["pass for old log-probs"] = log_prob_bytes(shape, config, devices)
    return max(parts.items(), key=lambda part: part[1])


def host_bytes(shape: Shape, config: dict[str, Any]) -> float:
    """Return a node's bytes: the model while it loads (by all ranks if embeddings are tied), and offloaded state."""
    trainer, section = config["trainer"], config["actor_rollout_ref"]
    weights, moments = _state(shape, config)
    fsdp = section["actor"]["fsdp_config"]
    mode = config.get("rpg", {}).get("reference", {}).get("mode", "old")
    reads = mode != "old" or section["actor"]["use_kl_loss"] or config["algorithm"]["use_kl_in_reward"]
    reference = weights if reads and not section["model"].get("lora_rank") else 0
    offloaded = 1.5 * moments if fsdp.get("offload_policy") else moments if fsdp.get("optimizer_offload") else 0
    readers = trainer["n_gpus_per_node"] if shape.tied else 1
    return readers * weights + copies(config) * (reference + offloaded) / trainer["nnodes"]


def kv_tokens(shape: Shape, config: dict[str, Any], memory: float) -> float:
    """Return the tokens in the KV cache of a device with `memory` bytes: vLLM's share without weights and RESERVE.

    More devices than heads of keys and values repeat them.
    """
    rollout = config["actor_rollout_ref"]["rollout"]
    width = 4 if rollout.get("dtype") in ("float32", "float") else 2
    parallel = rollout["tensor_model_parallel_size"]
    token = 2 * width * shape.layers * max(1, shape.kv_heads // parallel) * shape.head_dim
    share = rollout["gpu_memory_utilization"] * memory
    return max(0.0, (share - width * shape.parameters / parallel - RESERVE) / token)
