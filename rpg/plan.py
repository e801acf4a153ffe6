"""Memory of a run on GPUs, from its model's shape and its settings, for `rpg plan`.

The estimates detect a run that cannot fit; they do not replace a trial of a few steps. docs/gpu.md compares two of an
update with a GPU.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from rpg.config.run_config import RunConfig
from rpg.config.verl_keys import ACTOR, FSDP, MODEL, ROLLOUT
from rpg.diagnostics import BadSetting

GB = 1e9
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


# the models of our names, from their published config.json
QWEN25_7B = Shape(3584, 28, 18944, 28, 4, 128, 152064, False)
QWEN25_15B = Shape(1536, 28, 8960, 12, 2, 128, 151936, True)
QWEN25_05B = Shape(896, 24, 4864, 14, 2, 64, 151936, True)
MODELS = {
    "Qwen/Qwen2.5-Math-7B": QWEN25_7B,
    "Qwen/Qwen2.5-7B-Instruct": QWEN25_7B,
    "Qwen/Qwen2.5-1.5B": QWEN25_15B,
    "Qwen/Qwen2.5-1.5B-Instruct": QWEN25_15B,
    "Qwen/Qwen2.5-0.5B": QWEN25_05B,
    "Qwen/Qwen2.5-0.5B-Instruct": QWEN25_05B,
    "Qwen/Qwen3-4B": Shape(2560, 36, 9728, 32, 8, 128, 151936, True),
    "Qwen/Qwen3-1.7B": Shape(2048, 28, 6144, 16, 8, 128, 151936, True),
    "Qwen/Qwen3-0.6B": Shape(1024, 28, 3072, 16, 8, 128, 151936, True),
}


def shape_of(model: str) -> Shape | None:
    """Return the shape of a local model directory, or of one of MODELS by its hub name; else None.

    Raises BadSetting, which names the file: config.json cannot be read, lacks a size, or is of a mixture of experts.
    """
    file = Path(model).expanduser() / "config.json"
    if not file.is_file():
        return MODELS.get(model)
    try:
        config = json.loads(file.read_bytes())
        if config.get("num_experts") or config.get("num_local_experts"):
            raise ValueError("a mixture of experts")
        hidden, heads = config["hidden_size"], config["num_attention_heads"]
        return Shape(
            hidden, config["num_hidden_layers"], config["intermediate_size"], heads,
            config.get("num_key_value_heads") or heads, config.get("head_dim") or hidden // heads,
            config["vocab_size"], config.get("tie_word_embeddings") is True,
        )  # fmt: skip
    except (OSError, ValueError, LookupError) as error:
        raise BadSetting(f"{file}: no estimate for this kind of model: {error!r}") from error


def bytes_of(dtype: str | None) -> int:
    """Return the bytes per number of verl's data type name."""
    return 2 if dtype in ("bf16", "bfloat16", "fp16", "float16", "half") else 4


def state(shape: Shape, run: RunConfig) -> tuple[int, int]:
    """Return the bytes of all weights, and of AdamW's two moments; with LoRA only the adapter has moments."""
    width, adapter = bytes_of(run[f"{FSDP}.model_dtype"]), shape.adapter(run[f"{MODEL}.lora_rank"])
    return width * (shape.parameters + adapter), 2 * width * (adapter or shape.parameters)


def copies(run: RunConfig) -> int:
    """Return how often FSDP holds the model: once, or once in each group of fsdp_size ranks (HSDP)."""
    return run.devices // run[f"{FSDP}.fsdp_size"] if 0 < run[f"{FSDP}.fsdp_size"] < run.devices else 1


def update(shape: Shape, run: RunConfig) -> dict[str, float]:
    """Return the bytes of a device at the peak of an update under FSDP2, by what holds them.

    Activations: the hidden states that gradient checkpointing keeps, or all; and the larger of the logits of a
    micro-batch and a layer's backward, with the weights gathered for it; or AdamW's temporaries. Without flash-attn,
    torch's fp32 copy of the logits and attention over tokens x tokens.
    """
    weights, moments = (
        (0, 0) if run[f"{FSDP}.offload_policy"] else (part * copies(run) / run.devices for part in state(shape, run))
    )
    rows = max(run[f"{ACTOR}.ppo_mini_batch_size"] * run[f"{ROLLOUT}.n"] // run.devices, 1)
    tokens = min(run[f"{ACTOR}.ppo_micro_batch_size_per_gpu"] or 1, rows) * run.length
    if run[f"{ACTOR}.use_dynamic_bsz"]:
        tokens = min(run[f"{ACTOR}.ppo_max_token_len_per_gpu"], rows * run.length)
    width = bytes_of(run[f"{FSDP}.mixed_precision.param_dtype"] or "bf16")
    flash = run[f"{MODEL}.override_config.attn_implementation"] == "flash_attention_2"
    kept, again = shape.hidden, 4 * shape.intermediate + 5 * shape.hidden
    if not run[f"{MODEL}.enable_gradient_checkpointing"]:
        kept, again = 4 * shape.intermediate + (18 if width == 2 else 8) * shape.hidden, 0
    layer = again + 3 * shape.intermediate + shape.hidden + 6 * shape.heads * shape.head_dim
    logits = 0 if run[f"{MODEL}.use_fused_kernels"] else shape.vocabulary * (width + (0 if flash else 4))
    peak = tokens * max(logits + 5 * width * shape.hidden, width * layer) + 3 * width * shape.largest
    mask = width * tokens**2 if run[f"{MODEL}.use_remove_padding"] and not flash else 0
    activations = max(tokens * width * kept * shape.layers + mask + peak, moments / 2)
    parts = {"weights": weights, "gradients": moments / 2, "AdamW": moments, "activations": activations}
    return parts | {"outside torch": RESERVE}


def rollout(shape: Shape, run: RunConfig, memory: float) -> dict[str, float]:
    """Return the bytes of a device with `memory` bytes in a rollout: vLLM's share, and what is not offloaded."""
    weights, moments = (part * copies(run) / run.devices for part in state(shape, run))
    return {
        "vLLM": run[f"{ROLLOUT}.gpu_memory_utilization"] * memory,
        "weights": 0 if run[f"{FSDP}.offload_policy"] or run[f"{FSDP}.param_offload"] else weights,
        "AdamW": 0 if run[f"{FSDP}.offload_policy"] or run[f"{FSDP}.optimizer_offload"] else moments,
        "outside torch": RESERVE,
    }


def kv_cache(shape: Shape, run: RunConfig, memory: float) -> tuple[float, int]:
    """Return bytes and tokens of a device's KV cache: vLLM's share of `memory` bytes, without weights and RESERVE.

    More devices than heads of keys and values repeat them.
    """
    width, parallel = 2, run[f"{ROLLOUT}.tensor_model_parallel_size"]
    if run[f"{ROLLOUT}.dtype"] in ("float32", "float"):
        width = 4
    token = 2 * width * shape.layers * max(1, shape.kv_heads // parallel) * shape.head_dim
    size = max(0.0, run[f"{ROLLOUT}.gpu_memory_utilization"] * memory - width * shape.parameters / parallel - RESERVE)
    return size, round(size / token)


def host(shape: Shape, run: RunConfig) -> dict[str, float]:
    """Return a node's bytes: the model while it loads (by all ranks if embeddings are tied), and offloaded state."""
    weights, moments = state(shape, run)
    offloaded = 1.5 * moments if run[f"{FSDP}.offload_policy"] else moments if run[f"{FSDP}.optimizer_offload"] else 0
    share = copies(run) / run["trainer.nnodes"]
    return {
        "model while it loads": (run["trainer.n_gpus_per_node"] if shape.tied else 1) * weights,
        "reference": share * weights if run.has_reference_model and not run[f"{MODEL}.lora_rank"] else 0,
        "offloaded optimizer": share * offloaded,
    }


def estimate(shape: Shape, run: RunConfig, memory: float) -> tuple[bool, list[str]]:
    """Return whether a run fits GPUs of `memory` bytes, with a KV cache for one sequence, and its needs as lines."""
    needs = {"update": update(shape, run), "rollout": rollout(shape, run, memory)}
    size, tokens = kv_cache(shape, run, memory)
    fits = tokens >= run.length and all(sum(parts.values()) <= memory for parts in needs.values())
    lines = [_line(name, "a GPU", parts) for name, parts in needs.items()]
    cache = f"KV cache  {size / GB:.3g} GB a GPU: {tokens} tokens, {tokens // run.length} sequences of full length"
    return fits, [*lines, cache, _line("host", "a node", host(shape, run))]


def _line(name: str, where: str, parts: dict[str, float]) -> str:
    shown = ", ".join(f"{part} {size / GB:.3g}" for part, size in parts.items() if size)
    return f"{name:<9} {sum(parts.values()) / GB:.3g} GB {where}: {shown}"
