"""The plan of one run, its needs in bytes and seconds, from its configuration and a GPU."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

from rpg.plan import memory
from rpg.plan.estimate import (
    GB,
    GPU,
    GPUS,
    PROMPT,
    RATES,
    Shape,
    checkpoint_bytes,
    checkpoints_at_once,
    shape_of,
    step_seconds,
)


def chosen(name: str | None, memory: float | None) -> GPU:
    """Return the GPU of this name, with `memory` GB if given; without a name the known GPU nearest in memory.

    Raises ValueError for a memory that is not a positive number.
    """
    if memory is None:
        return GPUS[name or "h100"]
    if not 0 < memory < 1e6:
        raise ValueError(f"--memory {memory:g}: must be a positive number of GB")
    like = GPUS[name] if name else min(GPUS.values(), key=lambda gpu: abs(gpu.memory - memory * GB))
    return replace(like, memory=memory * GB, name=f"{memory:g} GB ({like.name}'s speed)")


@dataclass(frozen=True)
class Plan:
    """The needs of a run, in bytes and seconds.

    Attributes:
        phases: of a step, on one GPU. host: of a node.
        kv_tokens: capacity of the KV cache of one GPU. length: of a prompt and response, in tokens.
        step_seconds: fast and slow end of an estimate.
    """

    config: dict[str, Any]
    shape: Shape
    gpu: GPU
    devices: int
    phases: list[memory.Phase]
    host: memory.Phase
    kv_tokens: float
    length: int
    step_seconds: tuple[float, ...]
    checkpoint: float
    checkpoints: int

    @property
    def fits(self) -> bool:
        """Whether each phase fits the GPU and the KV cache holds one sequence, which vLLM requires."""
        return self.kv_tokens >= self.length and all(phase.size <= self.gpu.memory for phase in self.phases)


def made_for(config: dict[str, Any], gpu: GPU) -> Plan:
    """Return the plan of a resolved configuration on this GPU. Raises ValueError for a model of unknown shape."""
    path = str(config["actor_rollout_ref"]["model"]["path"])
    shape = shape_of(path)
    if shape is None:
        raise ValueError(
            f"actor_rollout_ref.model.path={path}: has no config.json; set MODEL_PATH to a local directory"
        )
    devices = config["trainer"]["n_gpus_per_node"] * config["trainer"]["nnodes"]
    return Plan(
        config, shape, gpu, devices,
        phases=memory.phases(shape, config, devices, gpu.memory),
        host=memory.host(shape, config),
        kv_tokens=memory.kv_tokens(shape, config, gpu.memory),
        length=config["data"]["max_prompt_length"] + config["data"]["max_response_length"],
        step_seconds=tuple(step_seconds(shape, config, gpu, devices, rates) for rates in RATES),
        checkpoint=checkpoint_bytes(shape, config),
        checkpoints=checkpoints_at_once(config),
    )  # fmt: skip


def as_json(plan: Plan) -> dict[str, Any]:
    """Return the plan's numbers: bytes per phase on one GPU, tokens, seconds per step (fast and slow end)."""
    numbers = ("fits", "kv_tokens", "step_seconds", "checkpoint", "checkpoints")
    return {
        "run": plan.config["trainer"]["experiment_name"],
        "gpu": plan.gpu.name,
        "gpus": plan.devices,
        "gpu_memory": plan.gpu.memory,
        "parameters": plan.shape.parameters,
        "phases": {phase.name: phase.size for phase in plan.phases},
        "host_memory": plan.host.size,
        **{name: getattr(plan, name) for name in numbers},
    }


INDENT = 26  # of a phase's terms


def lines(plan: Plan) -> Iterator[str]:
    """Yield the plan as text."""
    data, trainer, model = plan.config["data"], plan.config["trainer"], plan.config["actor_rollout_ref"]
    yield f"{trainer['experiment_name']} on {plan.devices} x {plan.gpu.name}"
    rank = model["model"].get("lora_rank")
    adapter = f" ({plan.shape.adapter(rank) / 1e6:.3g}e6 trained: LoRA of rank {rank})" if rank else ""
    lengths = f"prompt {data['max_prompt_length']} + response {data['max_response_length']} tokens"
    yield f"{plan.shape.parameters / 1e9:.3g}e9 parameters{adapter}, {lengths}"
    yield f"\nMemory of one GPU, of {plan.gpu.memory / GB:.3g} GB"
    for phase in plan.phases:
        yield f"  {phase.name:<{INDENT - 2}}{phase}{'' if phase.size <= plan.gpu.memory else '  DOES NOT FIT'}"
    sequences = f"{plan.kv_tokens // plan.length:.0f} sequences of full length"
    fits = "" if plan.kv_tokens >= plan.length else "  DOES NOT FIT"
    yield f"\nKV cache of one GPU\n  {plan.kv_tokens:.0f} tokens: {sequences}{fits}"
    half = PROMPT + data["max_response_length"] / 2
    at_half = f"{plan.kv_tokens / half:.0f} half-way through ({half:.0f} tokens)"
    yield f"  {at_half}; max_num_seqs={model['rollout']['max_num_seqs']}"
    fast, slow = plan.step_seconds
    steps = trainer["total_training_steps"]
    hours = f", {steps} steps {fast * steps / 3600:.3g} to {slow * steps / 3600:.3g} hours" if steps else ""
    yield f"\nTime, by assumed rates\n  a step {fast:.0f} to {slow:.0f} s{hours}"
    yield f"\nDisk\n  {plan.checkpoints} checkpoints at once of {plan.checkpoint / GB:.3g} GB"
    yield f"\nHost memory of a node\n  {plan.host}"
    yield f"\n{'fits' if plan.fits else 'DOES NOT FIT'}: {plan.gpu.name}"
