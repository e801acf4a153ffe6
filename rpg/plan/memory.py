"""Memory of one device in each phase of a step, from the model's shape and the run's settings.

The terms of a training process follow torch's memory tracker on transformers' models under FSDP2. The sums agree to 5 %
with the traced numbers in tests/checks/test_plan.py, which do not include OUTSIDE.
"""

from dataclasses import dataclass, field
from typing import Any

from rpg.plan.estimate import GB, MIB, Shape, all_parameters, bytes_of, has_reference, trained_parameters

BESIDE_KV = 4e9  # bytes of vLLM besides weights and cache (activations, CUDA graphs); assumed
OUTSIDE = 4e9  # bytes of CUDA contexts, NCCL and allocator fragments in every phase; assumed


@dataclass(frozen=True)
class Phase:
    """Memory of a device or host in a phase: bytes by purpose."""

    name: str
    terms: dict[str, float] = field(default_factory=dict)

    @property
    def size(self) -> float:
        """Sum of the bytes."""
        return sum(self.terms.values())

    def __str__(self) -> str:
        named = sorted(((size, name) for name, size in self.terms.items() if size > 0.05 * GB), reverse=True)
        return f"{self.size / GB:.3g} GB = " + " + ".join(f"{size / GB:.3g} {name}" for size, name in named)


def phases(shape: Shape, config: dict[str, Any], devices: int, memory: float) -> list[Phase]:
    """Return the phases of a step on one of `devices` devices with `memory` bytes each.

    Weights, gradients and AdamW's two moments have one data type and are sharded over the devices (FSDP2). With LoRA
    only the adapter has gradients and moments. verl's offload switches move the state to the host between two updates;
    offload_policy keeps it there.
    """
    section = config["actor_rollout_ref"]
    fsdp, engine = section["actor"]["fsdp_config"], section["rollout"]["checkpoint_engine"]
    width = bytes_of(fsdp.get("model_dtype"))
    weights = width * all_parameters(shape, config) / devices
    gradients = width * trained_parameters(shape, config) / devices
    moments = 2 * gradients
    if fsdp.get("offload_policy"):
        weights = gradients = moments = 0
    between_updates = {
        "weights": 0 if fsdp.get("param_offload") else weights,
        "moments": 0 if fsdp.get("optimizer_offload") else moments,
    }
    during_update = {"weights": weights, "gradients": gradients, "moments": moments}
    outside = {"outside (assumed)": OUTSIDE}
    largest = {"the largest weight": width * shape.largest}
    bucket = engine["update_weights_bucket_megabytes"] * MIB
    share = section["rollout"]["gpu_memory_utilization"] * memory
    return [
        Phase("load", {"weights": weights, **largest, **outside}),
        Phase("rollout", {"vLLM (gpu_memory_utilization)": share, **between_updates, **outside}),
        Phase("log-probs", {**between_updates, "weights": weights, **_forward(shape, config, devices), **outside}),
        Phase("update", {**during_update, **_update(shape, config, devices), **outside}),
        Phase("weight synchronisation", {
            **between_updates, "weights": weights, "vLLM's weights": vllm_weights(shape, config), **largest,
            "a bucket": bucket, **outside,
        }),
    ]  # fmt: skip


def tokens(config: dict[str, Any], devices: int, *, update: bool) -> int:
    """Return the tokens of the largest micro-batch on one device, in the update or for log-probs."""
    actor, rollout, data = config["actor_rollout_ref"]["actor"], config["actor_rollout_ref"]["rollout"], config["data"]
    length = data["max_prompt_length"] + data["max_response_length"]
    prompts = actor["ppo_mini_batch_size"] if update else data["train_batch_size"]
    rows = max(prompts * rollout["n"] // devices, 1)
    if actor["use_dynamic_bsz"]:
        limit = actor["ppo_max_token_len_per_gpu"] if update else rollout["log_prob_max_token_len_per_gpu"]
        return min(limit, rows * length)
    key = "ppo_micro_batch_size_per_gpu" if update else "log_prob_micro_batch_size_per_gpu"
    return min(rows, (actor if update else rollout).get(key) or 1) * length


def _width(config: dict[str, Any]) -> int:
    """Return the bytes per number in a forward pass."""
    precision = config["actor_rollout_ref"]["actor"]["fsdp_config"].get("mixed_precision") or {}
    return bytes_of(precision.get("param_dtype") or "bf16")


def _has_flash_attention(config: dict[str, Any]) -> bool:
    overrides = config["actor_rollout_ref"]["model"].get("override_config") or {}
    return overrides.get("attn_implementation") == "flash_attention_2"


def _logits(shape: Shape, config: dict[str, Any]) -> float:
    """Return the bytes of a token's logits; flash-attn's cross-entropy works in place, torch's makes an fp32 copy."""
    if config["actor_rollout_ref"]["model"].get("use_fused_kernels"):
        return 0
    return shape.vocabulary * (_width(config) + (0 if _has_flash_attention(config) else 4))


def _mask(config: dict[str, Any], count: int) -> float:
    """Return the bytes of torch's attention mask for a packed batch: tokens x tokens."""
    packed = config["actor_rollout_ref"]["model"].get("use_remove_padding")
    return _width(config) * count**2 if packed and not _has_flash_attention(config) else 0


def _forward(shape: Shape, config: dict[str, Any], devices: int) -> dict[str, float]:
    """Return the additional peak memory of log-probs: at the logits, or in a layer."""
    count, width = tokens(config, devices, update=False), _width(config)
    following = shape.layer if shape.tied else shape.embedding  # gathered meanwhile
    peaks = {
        f"logits of {count} tokens": count * (_logits(shape, config) + 2 * width * shape.hidden)
        + width * (shape.embedding + (following if devices > 1 else 0)),
        f"a layer of {count} tokens": count * width * (3 * shape.intermediate + 4 * shape.hidden)
        + width * (2 * shape.layer + (shape.embedding if shape.tied else 0)),
    }
    name = max(peaks, key=lambda label: peaks[label])
    return {name: peaks[name] + _mask(config, count)}


def _update(shape: Shape, config: dict[str, Any], devices: int) -> dict[str, float]:
    """Return the additional peak memory of the update: backward at the logits or in a layer, or the optimizer step.

    With gradient checkpointing a layer keeps one hidden state and recomputes its activations for backward. Without, it
    keeps the activations; in half precision its norms have fp32 copies.
    """
    count, width = tokens(config, devices, update=True), _width(config)
    kept, again = shape.hidden, 4 * shape.intermediate + 5 * shape.hidden
    if not config["actor_rollout_ref"]["model"].get("enable_gradient_checkpointing"):
        kept, again = 4 * shape.intermediate + (18 if width == 2 else 8) * shape.hidden, 0
    following = shape.layer if shape.tied else shape.embedding
    temporary = 3 * shape.intermediate + shape.hidden + 6 * shape.heads * shape.head_dim
    peaks = {
        f"logits of {count} tokens": count * (_logits(shape, config) + 5 * width * shape.hidden)
        + width * (2 * shape.embedding + (following if devices > 1 else 0)),
        f"backward of a layer, {count} tokens": count * width * (again + temporary)
        + 2 * width * shape.layer + (width if shape.tied else 4) * shape.embedding,
    }  # fmt: skip
    name = max(peaks, key=lambda label: peaks[label])
    activations = count * width * kept * shape.layers + _mask(config, count)
    on_host = config["actor_rollout_ref"]["actor"]["fsdp_config"].get("offload_policy")
    # AdamW's temporaries for all parameters, in fp32
    step = 0 if on_host else 4 * trained_parameters(shape, config) / devices
    if step > activations + peaks[name]:
        return {"temporaries of the optimizer": step}
    return {f"activations of {count} tokens": activations, name: peaks[name]}


def vllm_weights(shape: Shape, config: dict[str, Any]) -> float:
    """Return the bytes of vLLM's weights on one device."""
    rollout = config["actor_rollout_ref"]["rollout"]
    return _vllm_width(config) * shape.parameters / rollout["tensor_model_parallel_size"]


def _vllm_width(config: dict[str, Any]) -> int:
    return 4 if config["actor_rollout_ref"]["rollout"].get("dtype") in ("float32", "float") else 2


def kv_bytes(shape: Shape, config: dict[str, Any]) -> float:
    """Return the bytes of one token's keys and values in all layers, on one device."""
    parallel = config["actor_rollout_ref"]["rollout"]["tensor_model_parallel_size"]
    return 2 * _vllm_width(config) * shape.layers * shape.kv_heads * shape.head_dim / parallel


def kv_tokens(shape: Shape, config: dict[str, Any], memory: float) -> float:
    """Return the tokens in a device's KV cache: vLLM's share of the memory minus its weights and BESIDE_KV."""
    share = config["actor_rollout_ref"]["rollout"]["gpu_memory_utilization"] * memory
    return max(0.0, (share - vllm_weights(shape, config) - BESIDE_KV) / kv_bytes(shape, config))


def host(shape: Shape, config: dict[str, Any]) -> Phase:
    """Return a node's memory: the model while it loads (on all ranks if embeddings are tied), and offloaded state."""
    trainer, fsdp = config["trainer"], config["actor_rollout_ref"]["actor"]["fsdp_config"]
    size = bytes_of(fsdp.get("model_dtype")) * shape.parameters
    readers = trainer["n_gpus_per_node"] if shape.tied else 1
    separate_reference = has_reference(config) and not config["actor_rollout_ref"]["model"].get("lora_rank")
    kept = size / trainer["nnodes"] if separate_reference else 0
    gradients = bytes_of(fsdp.get("model_dtype")) * trained_parameters(shape, config) / trainer["nnodes"]
    always = fsdp.get("offload_policy")
    return Phase("host memory of a node", {
        f"the model, read by {readers} ranks": readers * size, "reference": kept,
        "gradients": gradients if always else 0,
        "moments": 2 * gradients if always or fsdp.get("optimizer_offload") else 0,
    })  # fmt: skip
