"""Seconds of a step: tokens and FLOPs, counted, over what a GPU does in a second, as a range.

Response lengths, dropped groups and the share of a GPU's peak are unknown before a run; one of a few steps tells more.
"""

from dataclasses import dataclass
from typing import Any

from rpg.checks.estimate import GPU, Shape, checkpoint, kv_bytes, kv_tokens

VALIDATION = 3200  # responses: the released AMC23, AIME24 and AIME25 files, 100 problems 32 times each
PROMPT = 256  # tokens of a problem in its template; assumed, `rpg doctor` counts those above the limit


@dataclass(frozen=True)
class Rates:
    """What is not known before a run.

    Attributes:
        response: mean response length over the longest.
        groups: sampled for one that is kept, where groups are filtered.
        update, forward: FLOPs over the peak, of the update, of log-probs and prefill.
        decode: memory bandwidth over the peak.
        sync: seconds of a weight synchronisation and of vLLM's waking up.
        disk: bytes a second to a node's checkpoints.
    """

    response: float
    groups: float
    update: float
    forward: float
    decode: float
    sync: float
    disk: float


# update=0.43: Llama 3 on 8k H100s (arXiv 2407.21783, table 4); all others are assumed, disk as NVMe and a network drive
FAST = Rates(response=0.35, groups=1.0, update=0.43, forward=0.5, decode=0.7, sync=5, disk=5e9)
SLOW = Rates(response=0.8, groups=1.5, update=0.25, forward=0.3, decode=0.5, sync=30, disk=1e9)


def forward_flops(shape: Shape, length: float) -> float:
    """FLOPs of one token's forward pass in a sequence of so many tokens: two a weight, and causal attention."""
    lookup = 0 if shape.tied else shape.vocabulary * shape.hidden  # the input embedding multiplies nothing
    return 2 * (shape.parameters - lookup) + 2 * shape.layers * shape.heads * shape.head_dim * length


def has_reference(config: dict[str, Any]) -> bool:
    """Whether a reference model computes log-probs: ours, or verl's for its own KL terms."""
    mode = config.get("rpg", {}).get("reference", {}).get("mode", "old")
    actor, algorithm = config["actor_rollout_ref"]["actor"], config["algorithm"]
    return mode != "old" or actor["use_kl_loss"] or algorithm["use_kl_in_reward"]


def phases(shape: Shape, config: dict[str, Any], gpu: GPU, devices: int, rates: Rates) -> dict[str, float]:
    """Seconds of a step by phase; validation and checkpoints by their share of it."""
    data, rollout, trainer = config["data"], config["actor_rollout_ref"]["rollout"], config["trainer"]
    response = rates.response * data["max_response_length"]
    sequences, length = data["train_batch_size"] * rollout["n"] / devices, PROMPT + response
    forward = forward_flops(shape, length) * sequences * length
    passes = 4 if config["actor_rollout_ref"]["model"].get("enable_gradient_checkpointing") else 3

    sampled = sequences * (rates.groups if config["algorithm"]["filter_groups"]["enable"] else 1)
    held = PROMPT + response / 2  # tokens of a response in the making, on average
    at_once = max(1.0, min(rollout["max_num_seqs"], sampled, kv_tokens(shape, config, gpu.memory) / held))
    # a decoding step reads all weights once and the cache of every sequence; the last responses run alone, to the end
    steps = sampled * response / at_once + data["max_response_length"]
    decoded = steps * 2 * shape.parameters + sampled * response * held * kv_bytes(shape, config)
    prompts = sampled / rollout["n"] if rollout.get("enable_prefix_caching") else sampled
    prefill = prompts * PROMPT * forward_flops(shape, PROMPT)

    took = {
        "generation": decoded / (rates.decode * gpu.bandwidth) + prefill / (rates.forward * gpu.flops),
        "log-probs": (1 + has_reference(config)) * forward / (rates.forward * gpu.flops),
        "update": passes * forward / (rates.update * gpu.flops),
        "weight synchronisation": rates.sync,
    }
    if trainer["test_freq"] > 0:
        validated = VALIDATION / (data["train_batch_size"] * rollout["n"])
        took["validation"] = took["generation"] * validated / trainer["test_freq"]
    if trainer["save_freq"] > 0:
        saved = checkpoint(shape, config).size / max(1, trainer["nnodes"])
        took["checkpoint"] = saved / rates.disk / trainer["save_freq"]
    return took


def step(shape: Shape, config: dict[str, Any], gpu: GPU, devices: int, rates: Rates) -> float:
    """Seconds of a step, validation and checkpoints by their share."""
    return sum(phases(shape, config, gpu, devices, rates).values())
