"""`rpg plan SCRIPT [--gpu h100] [--nodes N]`: what a run will need of GPUs, hosts, disk and time, before there is one.

The memory of the training process is traced (trace.py); vLLM's share, hosts and disk are arithmetic (estimate.py);
the time is a range (step_time.py). Nothing here needs a GPU, and nothing here has been compared with one yet.
"""

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from rpg.checks import settings, step_time
from rpg.checks.estimate import (
    GB,
    GPU,
    GPUS,
    OUTSIDE_VLLM,
    Shape,
    bytes_of,
    checkpoint,
    checkpoints_at_once,
    kv_bytes,
    kv_tokens,
    rollout,
    shape_of,
)
from rpg.checks.finding import Refused
from rpg.launching import scripts
from rpg.launching.compose import of_script


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg plan`."""
    parser.add_argument("script", help="a launch script, by name or path")
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="as for the script; before the options")
    parser.add_argument("--gpu", choices=list(GPUS), default="h100", help="what it would run on (default: h100)")
    parser.add_argument("--nodes", type=int, metavar="N", help="nodes (default: the script's, NNODES)")


def run(args: argparse.Namespace) -> int:
    """Print the plan; 2 where there is none to make, 1 where a phase or the KV cache does not fit the GPU, else 0."""
    more = [] if args.nodes is None else [f"trainer.nnodes={args.nodes}"]
    try:
        asked = of_script(scripts.find(args.script), [*args.overrides, *more])
        if wrong := list(settings.values(asked)):
            raise Refused(wrong)
        made = plan(asked.config, GPUS[args.gpu])
    except ValueError as error:
        print(f"rpg plan: {error}", file=sys.stderr)
        return 2
    print("\n".join(lines(made)))
    fits = all(phase.size <= made.gpu.memory for phase in made.phases) and _sequences(made) >= 1
    return 0 if fits else 1


@dataclass(frozen=True)
class Phase:
    """What a GPU holds in a phase: bytes, and how they came about."""

    name: str
    size: float
    how: str


@dataclass(frozen=True)
class Plan:
    """What a run needs.

    Attributes:
        phases: of a step, with the memory of each on one GPU.
        host: bytes of a node's memory while the model is loaded, and how.
    """

    config: dict[str, Any]
    shape: Shape
    gpu: GPU
    devices: int
    phases: list[Phase]
    host: Phase


def plan(config: dict[str, Any], gpu: GPU) -> Plan:
    """The plan of a resolved configuration on GPUs of this kind.

    Raises:
        ValueError: the model's configuration is not at hand, or cannot be traced.
    """
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    from rpg.checks.trace import trace

    trainer = config["trainer"]
    devices = trainer["n_gpus_per_node"] * trainer["nnodes"]
    shape = shape_of(str(config["actor_rollout_ref"]["model"]["path"]))
    reference = step_time.has_reference(config)
    found = trace(config, devices, reference=reference)
    assert shape is not None  # trace has found its configuration
    width = bytes_of(config["actor_rollout_ref"]["actor"]["fsdp_config"].get("model_dtype"))
    vllm = rollout(shape, config, devices, gpu.memory)
    engine = config["actor_rollout_ref"]["rollout"]["checkpoint_engine"]
    bucket = engine["update_weights_bucket_megabytes"] * 2**20
    weights = kv_weights(shape, config)
    outside = f"{OUTSIDE_VLLM / GB:.3g} outside (assumed)"

    def traced(name: str, peak: Any, batch: tuple[int, int]) -> Phase:
        parts = sorted(peak.parts.items(), key=lambda part: -part[1])
        named = ", ".join(f"{size / GB:.3g} {NAMES.get(kind, kind)}" for kind, size in parts if size > 0.05 * GB)
        tokens = f"{batch[1]} tokens" if batch[0] == 1 else f"{batch[0]} x {batch[1]} tokens"
        return Phase(name, peak.total + OUTSIDE_VLLM, f"traced, {tokens}: {named}; {outside}")

    shards = width * shape.parameters / devices
    phases = [
        Phase("load", shards + found.largest + OUTSIDE_VLLM,
              f"{shards / GB:.3g} shards, {found.largest / GB:.3g} the largest parameter, whole; {outside}"),
        Phase("rollout", vllm.size, vllm.formula),
        traced("old log-probs", found.log_prob, found.batches["log_prob"]),
        *([traced("reference", found.reference, found.batches["log_prob"])] if found.reference else []),
        traced("update", found.update, found.batches["update"]),
        Phase("weight synchronisation", found.resident + weights + found.largest + bucket + OUTSIDE_VLLM,
              f"{found.resident / GB:.3g} the actor's weights and moments, {weights / GB:.3g} vLLM's weights, "
              f"{found.largest / GB:.3g} a whole parameter, {bucket / GB:.3g} a bucket; {outside}"),
    ]  # fmt: skip
    return Plan(config, shape, gpu, devices, phases, _host(shape, config, width, reference))


NAMES = {
    "ACT": "activations and logits",
    "OPT": "moments",
    "SHARDED_PARAM": "weights",
    "SHARDED_GRAD": "gradients",
    "UNSHARDED_PARAM": "gathered weights",
    "UNSHARDED_GRAD": "gathered gradients",
    "ALL_GATHER": "all-gather",
    "REDUCE_SCATTER": "reduce-scatter",
    "TEMP": "temporaries",
}


def kv_weights(shape: Shape, config: dict[str, Any]) -> float:
    """Bytes of vLLM's own weights on one GPU."""
    settings = config["actor_rollout_ref"]["rollout"]
    width = bytes_of(settings.get("dtype") if settings.get("dtype") != "float" else None)
    return width * shape.parameters / settings["tensor_model_parallel_size"]


def _host(shape: Shape, config: dict[str, Any], width: int, reference: bool) -> Phase:
    gpus, nodes = config["trainer"]["n_gpus_per_node"], config["trainer"]["nnodes"]
    readers = gpus if shape.tied else 1
    size = readers * width * shape.parameters
    who = f"all {gpus} ranks, as its embeddings are tied" if shape.tied else "the first rank alone"
    how = f"{readers} x {width} B x {shape.parameters / 1e9:.3g}e9: read whole by {who}"
    if reference:
        kept = width * shape.parameters / nodes
        size, how = size + kept, f"{how}; and {kept / GB:.3g} GB of the reference's shards, which stay"
    return Phase("host memory of a node at load", size, how)


def lines(made: Plan) -> Iterator[str]:
    """The plan as text."""
    config, gpu, shape = made.config, made.gpu, made.shape
    data = config["data"]
    yield f"{config['trainer']['experiment_name']} on {made.devices} x {gpu.name}"
    lengths = f"prompt {data['max_prompt_length']} + response {data['max_response_length']} tokens"
    yield f"{shape.parameters / 1e9:.3g}e9 parameters, {lengths}"
    yield f"\nMemory of one GPU, GB of {gpu.memory / GB:.3g}"
    for phase in made.phases:
        fits = "" if phase.size <= gpu.memory else "  DOES NOT FIT"
        yield f"  {phase.name:<24}{phase.size / GB:>6.1f}{fits}  {phase.how}"
    yield "\nKV cache of one GPU"
    yield from _cache(made)
    yield "\nTime"
    yield from _time(made)
    one, most = checkpoint(shape, config), checkpoints_at_once(config)
    yield f"\nDisk\n  {most} checkpoints at once of {one}: {most * one.size / GB:.3g} GB"
    yield f"\nHost memory\n  {made.host.size / GB:.3g} GB of a node at load = {made.host.how}"


def _tokens(made: Plan) -> float:
    """Tokens that the KV cache holds; none where vLLM's share is used up before it."""
    return max(0.0, kv_tokens(made.shape, made.config, made.gpu.memory))


def _sequences(made: Plan) -> float:
    """Sequences of full length that the KV cache holds; below one, vLLM would not start."""
    data = made.config["data"]
    return _tokens(made) / (data["max_prompt_length"] + data["max_response_length"])


def _cache(made: Plan) -> Iterator[str]:
    config, data = made.config, made.config["data"]
    tokens, whole = _tokens(made), _sequences(made)
    half = step_time.PROMPT + data["max_response_length"] / 2
    size = kv_bytes(made.shape, config) / 1e3
    fits = "" if whole >= 1 else "  DOES NOT FIT"
    yield f"  {tokens:.0f} tokens of {size:.3g} kB: {int(whole)} sequences of full length at once,{fits}"
    most = config["actor_rollout_ref"]["rollout"]["max_num_seqs"]
    yield f"  {tokens / half:.0f} half-way through ({half:.0f} tokens); max_num_seqs={most}"


def _time(made: Plan) -> Iterator[str]:
    total = made.config["trainer"]["total_training_steps"]
    for name, rates in (("fast", step_time.FAST), ("slow", step_time.SLOW)):
        took = step_time.phases(made.shape, made.config, made.gpu, made.devices, rates)
        second = sum(took.values())
        run = f", {total} steps {second * total / 3600:.3g} hours" if total else ""
        yield f"  {name}: a step {second:.0f} s{run} ({', '.join(f'{key} {value:.0f}' for key, value in took.items())})"
        yield f"    assumed: {rates}"
