"""How long a step takes: tokens and FLOPs counted, divided by what a GPU does in a second, as a range.

What is counted follows from settings and shapes. What is not known before a run (how long the answers get, how many
groups are dropped, how much of its peak a GPU reaches) is a range in RANGES, each with its source; most are assumed,
and say so. One run of a few steps is worth more than all of them.
"""

from dataclasses import dataclass
from typing import Any, Literal

from rpg.checks.estimate import GPU, Shape, checkpoint, kv_bytes, kv_tokens

End = Literal["fast", "slow"]
VALIDATION = 3200  # answers: the released AMC23, AIME24 and AIME25 files, 100 problems 32 times each
PROMPT = 256  # tokens of a problem in its template; assumed, `rpg doctor` counts those above the limit


@dataclass(frozen=True)
class Range:
    """What is not known before a run: its value in the fast case and in the slow one, and where they come from."""

    fast: float
    slow: float
    what: str
    source: str

    def at(self, end: End) -> float:
        """The value at one end."""
        return self.fast if end == "fast" else self.slow


RANGES: dict[str, Range] = {
    "response": Range(0.35, 0.8, "mean response, of the longest", "assumed; 1 would be every answer cut off"),
    "groups": Range(1.0, 1.5, "groups sampled for one that is kept, where groups are filtered",
                    "assumed; 1.5 drops every third"),
    "update": Range(0.43, 0.25, "FLOPs of the update, of the peak",
                    "0.43: Llama 3 on 8k H100 (arXiv 2407.21783, table 4); 0.25: assumed"),
    "forward": Range(0.5, 0.3, "FLOPs of log-probs and prefill, of the peak", "assumed"),
    "decode": Range(0.7, 0.5, "memory bandwidth while decoding, of the peak", "assumed"),
    "sync": Range(5, 30, "seconds of a weight synchronisation and vLLM's waking up", "assumed"),
    "disk": Range(5e9, 1e9, "bytes a second to a node's checkpoints", "assumed: local NVMe; a network file system"),
}  # fmt: skip


@dataclass(frozen=True)
class Work:
    """What one GPU does in a step, counted.

    Attributes:
        sequences: answers that are trained on. response: tokens of an answer, the mean.
        at_once: answers that vLLM decodes at the same time.
        update, log_prob, prefill: FLOPs. decode: bytes that are read from memory.
    """

    sequences: float
    response: float
    at_once: float
    update: float
    log_prob: float
    prefill: float
    decode: float

    @property
    def tokens(self) -> float:
        """Prompt and response tokens that are trained on."""
        return self.sequences * (PROMPT + self.response)


def forward_flops(shape: Shape, length: float) -> float:
    """FLOPs of one token's forward pass in a sequence of so many tokens: two a weight, and causal attention."""
    lookup = 0 if shape.tied else shape.vocabulary * shape.hidden  # the input embedding multiplies nothing
    return 2 * (shape.parameters - lookup) + 2 * shape.layers * shape.heads * shape.head_dim * length


def work(shape: Shape, config: dict[str, Any], gpu: GPU, devices: int, end: End) -> Work:
    """What one of so many GPUs does in a step."""
    data, rollout = config["data"], config["actor_rollout_ref"]["rollout"]
    model = config["actor_rollout_ref"]["model"]
    response = RANGES["response"].at(end) * data["max_response_length"]
    sequences = data["train_batch_size"] * rollout["n"] / devices
    length = PROMPT + response
    forward = forward_flops(shape, length) * sequences * length
    passes = 1 + has_reference(config)  # old log-probs, and those of the reference
    recomputed = 1 if model.get("enable_gradient_checkpointing") else 0

    filtered = config["algorithm"]["filter_groups"]["enable"]
    sampled = sequences * (RANGES["groups"].at(end) if filtered else 1)
    mean = PROMPT + response / 2  # tokens that an answer in the making holds
    at_once = max(1.0, min(rollout["max_num_seqs"], sampled, kv_tokens(shape, config, gpu.memory) / mean))
    # a decoding step reads all weights once and the cache of every sequence; the last answers run alone, up to the end
    steps = sampled * response / at_once + data["max_response_length"]
    decode = steps * 2 * shape.parameters + sampled * response * mean * kv_bytes(shape, config)
    prompts = sampled / rollout["n"] if rollout.get("enable_prefix_caching") else sampled
    return Work(
        sequences, response, at_once,
        update=(3 + recomputed) * forward, log_prob=passes * forward,
        prefill=prompts * PROMPT * forward_flops(shape, PROMPT), decode=decode,
    )  # fmt: skip


def has_reference(config: dict[str, Any]) -> bool:
    """Whether a reference model is asked for its log-probs: ours, or verl's for its own KL terms."""
    mode = config.get("rpg", {}).get("reference", {}).get("mode", "old")
    return (
        mode != "old" or config["actor_rollout_ref"]["actor"]["use_kl_loss"] or config["algorithm"]["use_kl_in_reward"]
    )


def seconds(shape: Shape, config: dict[str, Any], gpu: GPU, devices: int, end: End) -> dict[str, float]:
    """Seconds of a step by phase; validation and checkpoints by their share of it."""
    done, trainer, data = work(shape, config, gpu, devices, end), config["trainer"], config["data"]
    rate = {name: known.at(end) for name, known in RANGES.items()}
    decode = done.decode / (rate["decode"] * gpu.bandwidth)
    found = {
        "generation": decode + done.prefill / (rate["forward"] * gpu.flops),
        "log-probs": done.log_prob / (rate["forward"] * gpu.flops),
        "update": done.update / (rate["update"] * gpu.flops),
        "weight synchronisation": rate["sync"],
    }
    if trainer["test_freq"] > 0:
        sampled = data["train_batch_size"] * config["actor_rollout_ref"]["rollout"]["n"]
        found["validation"] = found["generation"] * VALIDATION / sampled / trainer["test_freq"]
    if trainer["save_freq"] > 0:
        nodes = max(1, config["trainer"]["nnodes"])
        found["checkpoint"] = checkpoint(shape, config).size / nodes / rate["disk"] / trainer["save_freq"]
    return found


def step(shape: Shape, config: dict[str, Any], gpu: GPU, devices: int, end: End) -> float:
    """Seconds of a step, validation and checkpoints by their share."""
    return sum(seconds(shape, config, gpu, devices, end).values())
