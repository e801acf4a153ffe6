"""Checks that compare the estimated memory and disk of the settings with the machine."""

import math
import shutil
from collections.abc import Iterator
from pathlib import Path

import psutil

from rpg.config.check import check
from rpg.config.gpu_host import visible
from rpg.config.machine import RUN_DIR, nearest
from rpg.config.run_config import RunConfig
from rpg.config.settings import ACTOR, BUCKET, MODEL, ROLLOUT
from rpg.data.diagnostics import ABSENT, Diagnostic, Level
from rpg.files.integrity import steps
from rpg.plan import (
    GB,
    MIB,
    Shape,
    bytes_of,
    checkpoint_bytes,
    checkpoints_at_once,
    device_bytes,
    host_bytes,
    kv_tokens,
    shape_of,
)

SHAPE = f"{MODEL}.path"


def _shape(run: RunConfig) -> Shape | None:
    """Return the model's shape, or None if it is unknown (the check `memory` then reports it)."""
    try:
        return shape_of(str(run.get(SHAPE)))
    except ValueError:
        return None


@check(
    "memory",
    "training, rollout and KV cache fit into GPU memory, offloaded state into the host's",
    "thorough",
    "machine",
)
def memory(run: RunConfig) -> Iterator[Diagnostic]:
    """Yields estimates; they do not replace a trial of a few steps."""
    try:
        shape = shape_of(str(run.get(SHAPE)))
    except ValueError as error:
        yield Diagnostic(SHAPE, run.get(SHAPE), str(error), level="warning")
        return
    gpus = [] if run.cluster or run.logical else visible()
    if shape is None:
        wrong = "its shape is unknown"
        yield Diagnostic(SHAPE, run.get(SHAPE), wrong, "set MODEL_PATH to a local directory", "skip")
    elif not gpus:
        yield Diagnostic("GPU", ABSENT, "no GPU here; `rpg plan` estimates for one", level="skip")
    else:
        yield from needs(run, shape, min(gpu.memory for gpu in gpus))
        yield host_needs(run, shape, host_limit())


def needs(run: RunConfig, shape: Shape, device: float) -> Iterator[Diagnostic]:
    """Compare memory and KV cache of a model of this shape with a device's bytes."""
    config = run.config
    phase, size = device_bytes(shape, config, run.devices, device)
    remedy = "" if size <= device else "more devices, smaller token budgets, gpu_memory_utilization, or offloading"
    estimate = f"about {size / GB:.3g} GB, in the {phase}; there are {device / GB:.3g} GB a device"
    yield Diagnostic("GPU memory", ABSENT, estimate, remedy, "ok" if size <= device else "error")
    count = kv_tokens(shape, config, device)
    length = run.get("data.max_prompt_length") + run.get("data.max_response_length")
    estimate, fits = f"{count:.0f} tokens: {count / length:.0f} sequences of full length at once", count >= length
    remedy = "" if fits else "more memory for vLLM, or a smaller data.max_response_length"
    yield Diagnostic("KV cache", ABSENT, estimate, remedy, "ok" if fits else "error")


CONTAINER = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")  # of cgroup v2 and v1


def host_limit() -> int:
    """Return the bytes of host memory that this machine or container has."""
    limits = [psutil.virtual_memory().total]
    for file in map(Path, CONTAINER):
        if file.is_file() and (text := file.read_text().strip()).isdecimal():
            limits.append(int(text))
    return min(limits)


def host_needs(run: RunConfig, shape: Shape, limit: float) -> Diagnostic:
    """Compare loading and offloaded state, without Ray's and vLLM's processes, with the host's bytes."""
    size = host_bytes(shape, run.config)
    remedy = "" if size <= limit else "docker run --memory, more nodes, or no offloading"
    estimate = f"about {size / GB:.3g} GB a node; there are {limit / GB:.3g} GB"
    return Diagnostic("host memory", ABSENT, estimate, remedy, "ok" if size <= limit else "error")


@check("context", "the model's context holds prompt plus response")
def context(run: RunConfig) -> Iterator[Diagnostic]:
    """vLLM would reject it only after minutes."""
    shape, key = _shape(run), f"{ROLLOUT}.max_model_len"
    length = run.get(key)
    if shape is not None and shape.positions is not None and length is not None and length > shape.positions:
        wrong = f"is beyond the {shape.positions} tokens of the model's context (max_position_embeddings)"
        yield Diagnostic(key, length, wrong, "lower data.max_response_length, or use another model")


@check("weight bucket", "without CUDA: the bucket holds the largest weight, /dev/shm one per rank", subject="machine")
def weight_bucket(run: RunConfig) -> Iterator[Diagnostic]:
    """verl would fail at the first synchronisation, and writing beyond /dev/shm kills the process without a message."""
    shape = _shape(run)
    if shape is None or run.get("trainer.device") != "cpu":
        return
    number, bucket = bytes_of(run.get(f"{ACTOR}.fsdp_config.model_dtype")), run.get(BUCKET)
    size = shape.largest * number
    if size > bucket * MIB:
        wrong = f"does not hold the model's largest weight, {size / MIB:.0f} MiB"
        yield Diagnostic(BUCKET, bucket, wrong, f"set it to {math.ceil(size / MIB)} or more")
    need = run.get("trainer.n_gpus_per_node") * min(bucket * MIB, shape.parameters * number)
    free = shutil.disk_usage("/dev/shm").free
    if need > free and not run.cluster:
        wrong = f"/dev/shm has {free / MIB:.0f} MiB free, and the buckets of all ranks need {need / MIB:.0f}"
        yield Diagnostic(BUCKET, bucket, wrong, "give the container more (docker run --shm-size)")


@check("disk", "two checkpoints fit on the disk; a warning if the others to keep do not", subject="machine")
def disk(run: RunConfig) -> Iterator[Diagnostic]:
    """Without space for two, a failure while the second is written could leave none."""
    if (shape := _shape(run)) is not None:
        yield from checkpoints_fit(run, shape)


def checkpoints_fit(run: RunConfig, shape: Shape) -> Iterator[Diagnostic]:
    """Compare the size of the run's checkpoints with the free space; it reuses the space of earlier ones."""
    config = run.config
    size, most = checkpoint_bytes(shape, config), checkpoints_at_once(config)
    target = Path(run.get(RUN_DIR)).expanduser().absolute()
    place = nearest(target)
    free = shutil.disk_usage(place).free
    saved = 0
    if run.get("trainer.resume_mode") != "disable" and run.get("trainer.max_actor_ckpt_to_keep"):
        saved = min(len(steps(target)), most)
    result = f"{most} at once of {size / GB:.3g} GB; there are {free / GB:.3g} GB free at {place}"
    if saved:
        result += f", and {saved} of them are there already"
    level: Level = "ok"
    if most * size > free + saved * size:
        level = "error" if min(most, 2) * size > free + saved * size else "warning"
    remedy = "" if level == "ok" else "set CKPTS_DIR elsewhere, or trainer.max_actor_ckpt_to_keep=2"
    yield Diagnostic("checkpoints", ABSENT, result, remedy, level)
