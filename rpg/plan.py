"""Memory of a run on GPUs, from its model's shape and its settings, for `rpg plan` and doctor's check `memory`.

The estimates detect a run that cannot fit; they do not replace a trial of a few steps. docs/gpu.md compares two of an
update with a GPU.
"""

import json
from dataclasses import dataclass
from pathlib import Path

from rpg.config.run_config import RunConfig
from rpg.config.verl_keys import ACTOR, FSDP, MODEL, ROLLOUT

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


MODELS = {  # of our names, also with -Instruct, from their published config.json
    "Qwen/Qwen2.5-Math-7B": Shape(3584, 28, 18944, 28, 4, 128, 152064, False),
    "Qwen/Qwen2.5-7B": Shape(3584, 28, 18944, 28, 4, 128, 152064, False),
    "Qwen/Qwen2.5-1.5B": Shape(1536, 28, 8960, 12, 2, 128, 151936, True),
    "Qwen/Qwen2.5-0.5B": Shape(896, 24, 4864, 14, 2, 64, 151936, True),
    "Qwen/Qwen3-4B": Shape(2560, 36, 9728, 32, 8, 128, 151936, True),
    "Qwen/Qwen3-1.7B": Shape(2048, 28, 6144, 16, 8, 128, 151936, True),
    "Qwen/Qwen3-0.6B": Shape(1024, 28, 3072, 16, 8, 128, 151936, True),
}


def shape_of(model: str) -> Shape | None:
    """Return the shape of a local model directory, or of one of MODELS by its hub name.

    None for another model: its config.json is missing, lacks a size, or is of a mixture of experts.
    """
    file = Path(model).expanduser() / "config.json"
    if not file.is_file():
        return MODELS.get(model.removesuffix("-Instruct"))
    try:
        config = json.loads(file.read_bytes())
        hidden, heads = config["hidden_size"], config["num_attention_heads"]
        shape = Shape(
            hidden, config["num_hidden_layers"], config["intermediate_size"], heads,
            config.get("num_key_value_heads") or heads, config.get("head_dim") or hidden // heads,
            config["vocab_size"], config.get("tie_word_embeddings") is True,
        )  # fmt: skip
    except (ValueError, LookupError):
        return None
    return None if config.get("num_experts") or config.get("num_local_experts") else shape


def bytes_of(dtype: str | None) -> int:
    """Return the bytes per number of verl's data type name."""
    return 2 if dtype in ("bf16", "bfloat16", "fp16", "float16", "half") else 4


def state(shape: Shape, run: RunConfig) -> tuple[float, float]:
    """Return the bytes of the weights and of AdamW's two moments on all devices.

    FSDP holds the model once, or once in each group of fsdp_size ranks (HSDP). LoRA's adapter, which alone has moments
    then, is small and left out.
    """
    group = run[f"{FSDP}.fsdp_size"]
    copies = run.devices // group if 0 < group < run.devices else 1
    weights = copies * bytes_of(run[f"{FSDP}.model_dtype"]) * shape.parameters
    return weights, 0 if run[f"{MODEL}.lora_rank"] else 2 * weights


def activations(shape: Shape, run: RunConfig) -> float:
    """Return the bytes of an update beside weights, gradients and moments, with gradient checkpointing.

    The hidden states of all layers; and the larger of the logits of a micro-batch and a layer's backward, with the
    weights gathered for it. Without flash-attn, torch's fp32 copy of the logits and attention over tokens x tokens.
    """
    rows = max(run[f"{ACTOR}.ppo_mini_batch_size"] * run[f"{ROLLOUT}.n"] // run.devices, 1)
    tokens = min(run[f"{ACTOR}.ppo_micro_batch_size_per_gpu"] or 1, rows) * run.length
    if run[f"{ACTOR}.use_dynamic_bsz"]:
        tokens = min(run[f"{ACTOR}.ppo_max_token_len_per_gpu"], rows * run.length)
    width = bytes_of(run[f"{FSDP}.mixed_precision.param_dtype"] or "bf16")
    flash = run[f"{MODEL}.override_config.attn_implementation"] == "flash_attention_2"
    layer = 7 * shape.intermediate + 6 * shape.hidden + 6 * shape.heads * shape.head_dim
    logits = 0 if run[f"{MODEL}.use_fused_kernels"] else shape.vocabulary * (width + (0 if flash else 4))
    peak = tokens * max(logits + 5 * width * shape.hidden, width * layer)
    gathered = 3 * width * shape.hidden * max(shape.vocabulary, shape.intermediate)  # the largest weight
    mask = width * tokens**2 if run[f"{MODEL}.use_remove_padding"] and not flash else 0
    return tokens * width * shape.hidden * shape.layers + mask + peak + gathered


def needs(shape: Shape, run: RunConfig, memory: float) -> dict[str, dict[str, float]]:
    """Return the bytes of a GPU of `memory` bytes in an update (FSDP2) and in a rollout, and of a node's host.

    The host holds the model while it loads (each rank if embeddings are tied), and offloaded state.
    """
    weights, moments = (size / run.devices for size in state(shape, run))
    fsdp, ranks = run[FSDP], run["trainer.n_gpus_per_node"]
    always = fsdp["offload_policy"]
    update: dict[str, float] = {} if always else {"weights": weights, "gradients": moments / 2, "AdamW": moments}
    update["activations"] = max(activations(shape, run), update.get("gradients", 0))  # or AdamW's temporaries
    rollout: dict[str, float] = {"vLLM": run[f"{ROLLOUT}.gpu_memory_utilization"] * memory}
    loading = bytes_of(fsdp["model_dtype"]) * shape.parameters
    host: dict[str, float] = {"model while it loads": loading * (ranks if shape.tied else 1)}
    if run.has_reference_model and not run[f"{MODEL}.lora_rank"]:
        host["reference"] = ranks * weights
    if not (always or fsdp["param_offload"]):
        rollout["weights"] = weights
    if always or fsdp["optimizer_offload"]:
        host["offloaded optimizer"] = ranks * moments * (1.5 if always else 1)
    else:
        rollout["AdamW"] = moments
    reserve: dict[str, float] = {"outside torch": RESERVE}
    return {"update": update | reserve, "rollout": rollout | reserve, "host": host}


def kv_cache(shape: Shape, run: RunConfig, memory: float) -> tuple[float, int]:
    """Return bytes and tokens of a GPU's KV cache: vLLM's share of `memory` bytes, without weights and RESERVE.

    More GPUs than heads of keys and values repeat them.
    """
    width, parallel = 2, run[f"{ROLLOUT}.tensor_model_parallel_size"]
    token = 2 * width * shape.layers * max(1, shape.kv_heads // parallel) * shape.head_dim
    size = max(0.0, run[f"{ROLLOUT}.gpu_memory_utilization"] * memory - width * shape.parameters / parallel - RESERVE)
    return size, round(size / token)


def estimate(shape: Shape, run: RunConfig, memory: float) -> tuple[bool, list[str]]:
    """Return whether a run fits GPUs of `memory` bytes, with a KV cache for one sequence, and its needs as lines."""
    parts, (size, tokens) = needs(shape, run, memory), kv_cache(shape, run, memory)
    fits = tokens >= run.length and all(sum(parts[name].values()) <= memory for name in ("update", "rollout"))
    lines = []
    for name, held in parts.items():
        shown = ", ".join(f"{part} {size / GB:.3g}" for part, size in held.items() if size)
        where = "node" if name == "host" else "GPU"
        lines.append(f"{name:<9} {sum(held.values()) / GB:.3g} GB a {where}: {shown}")
    cache = f"KV cache  {size / GB:.3g} GB a GPU: {tokens} tokens, {tokens // run.length} sequences of full length"
    return fits, [*lines, cache]
