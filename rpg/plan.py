"""Needs of a run from its model's shape and settings: parameters, memory, KV cache, checkpoints.

The estimates detect a run that cannot fit; they do not replace a trial of a few steps. docs/gpu.md compares two of an
update with a GPU.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from rpg.config.keys import Settings
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


def _state(shape: Shape, s: Settings) -> tuple[int, int]:
    """Return the bytes of all weights, and of AdamW's two moments; with LoRA only the adapter has moments."""
    width, adapter = bytes_of(s.model_dtype), shape.adapter(s.lora_rank)
    return width * (shape.parameters + adapter), 2 * width * (adapter or shape.parameters)


def copies(s: Settings) -> int:
    """Return how often FSDP holds the model: once, or once in each group of fsdp_size ranks (HSDP)."""
    return s.devices // s.fsdp_size if 0 < s.fsdp_size < s.devices else 1


def checkpoint_bytes(shape: Shape, s: Settings) -> int:
    """Return the bytes of one checkpoint: weights, two moments, and a moving reference (a fixed one is not saved).

    Every rank writes its shards; an export (hf_model) is written once.
    """
    weights, moments = _state(shape, s)
    contents = s.save_contents or ("model", "optimizer", "extra")
    models = ("model" in contents) + (s.reference in MOVING_REFERENCES)
    shards = models * weights + ("optimizer" in contents) * moments
    return copies(s) * shards + ("hf_model" in contents) * weights


def checkpoints_at_once(s: Settings) -> int:
    """Return the maximal number of checkpoints on the disk; 2 for a run without a last step that keeps all.

    A run that only validates saves none.
    """
    if s.save_freq <= 0 or s.val_only:
        return 0
    most = max(s.kept, 2) if s.kept else None  # the old one stays until the next is complete
    if s.steps is None:
        return most or 2
    written = -(-s.steps // s.save_freq)  # the last step is always saved
    return min(written, most) if most else written


def _tokens(s: Settings, rows: int, budget: int | None, size: int | None) -> int:
    """Return the tokens of a micro-batch of at most `rows` responses: within a budget, or else of `size` responses."""
    return min(budget, rows * s.length) if budget else min(size or 1, rows) * s.length


def update_bytes(shape: Shape, s: Settings) -> float:
    """Return the peak bytes of a device in an update under FSDP2, RESERVE included.

    Sharded weights, gradients and moments; the hidden states that gradient checkpointing keeps, or all activations; and
    the larger of the logits of a micro-batch and a layer's backward, with the weights gathered for it; or AdamW's
    temporaries. Without flash-attn, torch's fp32 copy of the logits and attention over tokens x tokens.
    """
    weights, moments = _state(shape, s)
    shards = s.devices / copies(s)
    state = 0 if s.offload_policy else (weights + 1.5 * moments) / shards
    rows = max(s.mini_batch * s.n // s.devices, 1)
    tokens = _tokens(s, rows, s.actor_tokens if s.actor_packs else None, s.micro_batch)
    width = bytes_of(s.compute_dtype or "bf16")
    flash = s.attention == "flash_attention_2"
    kept, again = shape.hidden, 4 * shape.intermediate + 5 * shape.hidden
    if not s.checkpointing:
        kept, again = 4 * shape.intermediate + (18 if width == 2 else 8) * shape.hidden, 0
    layer = again + 3 * shape.intermediate + shape.hidden + 6 * shape.heads * shape.head_dim
    logits = 0 if s.fused else shape.vocabulary * (width + (0 if flash else 4))
    peak = tokens * max(logits + 5 * width * shape.hidden, width * layer) + 3 * width * shape.largest
    mask = width * tokens**2 if s.packs and not flash else 0
    step = state and moments / shards / 2  # of the optimizer
    return state + max(tokens * width * kept * shape.layers + mask + peak, step) + RESERVE


def entropy_bytes(vocabulary: int, s: Settings) -> int:
    """Return the bytes per token that the entropy adds to the logits in verl's pass for old log-probs.

    verl always computes it there; with bypass_mode there is no such pass. Without torch.compile, chunks or the fused
    kernel these are three float32 copies: autocast's of the logits, the softmax, and the temporary of logsumexp or of
    the product.
    """
    return 0 if s.bypass or s.compiled or s.chunked_entropy or s.fused else 3 * 4 * vocabulary


def log_prob_tokens(s: Settings) -> int:
    """Return the tokens of a micro-batch of a device in the pass for old log-probs."""
    rows = -(-s.batch * s.n // s.devices)
    return _tokens(s, rows, s.log_prob_tokens if s.log_prob_packs else None, s.log_prob_micro_batch)


def log_prob_bytes(shape: Shape, s: Settings) -> float:
    """Return the peak bytes of a device in the pass for old log-probs, RESERVE included: no gradients are kept."""
    weights, moments = _state(shape, s)
    state = 0 if s.offload_policy else weights + (0 if s.optimizer_offload else moments)
    width = bytes_of(s.compute_dtype or "bf16")
    layer = width * (3 * shape.intermediate + shape.hidden + 6 * shape.heads * shape.head_dim)
    logits = 0 if s.fused else width * shape.vocabulary
    peak = log_prob_tokens(s) * max(logits + entropy_bytes(shape.vocabulary, s), layer)
    return state * copies(s) / s.devices + peak + 3 * width * shape.largest + RESERVE


def device_bytes(shape: Shape, s: Settings, memory: float) -> tuple[str, float]:
    """Return the part of a step that needs most of a device with `memory` bytes, and its bytes.

    During rollouts vLLM's share is beside the weights and moments that are not offloaded.
    """
    weights, moments = _state(shape, s)
    kept = (0 if s.param_offload else weights) + (0 if s.optimizer_offload else moments)
    rollout = s.memory_share * memory + (0 if s.offload_policy else kept * copies(s) / s.devices) + RESERVE
    parts = {"update": update_bytes(shape, s), "rollout": rollout}
    parts["pass for old log-probs"] = log_prob_bytes(shape, s)
    return max(parts.items(), key=lambda part: part[1])


def host_bytes(shape: Shape, s: Settings) -> float:
    """Return a node's bytes: the model while it loads (by all ranks if embeddings are tied), and offloaded state."""
    weights, moments = _state(shape, s)
    reference = weights if s.has_reference_model and not s.lora_rank else 0
    offloaded = 1.5 * moments if s.offload_policy else moments if s.optimizer_offload else 0
    readers = s.gpus if shape.tied else 1
    return readers * weights + copies(s) * (reference + offloaded) / s.nodes


def kv_tokens(shape: Shape, s: Settings, memory: float) -> float:
    """Return the tokens in the KV cache of a device with `memory` bytes: vLLM's share without weights and RESERVE.

    More devices than heads of keys and values repeat them.
    """
    width = 4 if s.rollout_dtype in ("float32", "float") else 2
    token = 2 * width * shape.layers * max(1, shape.kv_heads // s.tensor_parallel) * shape.head_dim
    return max(0.0, (s.memory_share * memory - width * shape.parameters / s.tensor_parallel - RESERVE) / token)
