"""Checks that compare the estimated memory and disk of the settings with the machine."""

import math
import os
import shutil
from pathlib import Path

import psutil

from rpg.config.keys import KEYS
from rpg.config.run_config import RunConfig
from rpg.diagnostics import ABSENT, Diagnostic, Findings, Level
from rpg.files.integrity import steps
from rpg.gpu_host import visible
from rpg.plan import (
    GB,
    MIB,
    Shape,
    bytes_of,
    checkpoint_bytes,
    checkpoints_at_once,
    device_bytes,
    entropy_bytes,
    host_bytes,
    kv_tokens,
    log_prob_tokens,
    shape_of,
)

IN_USE = 2 * GB  # of a GPU; a desktop takes less


def _shape(run: RunConfig) -> Shape | None:
    """Return the model's shape, or None if it is unknown (the check `memory` then reports it)."""
    try:
        return shape_of(run.settings.model)
    except ValueError:
        return None


def memory(run: RunConfig) -> Findings:
    """Training, rollout and KV cache fit into GPU memory, offloaded state into the host's.

    Yields estimates; they do not replace a trial of a few steps.
    """
    try:
        shape = shape_of(run.settings.model)
    except ValueError as error:
        yield run.settings.finding("model", str(error), "", "warning")
        return
    gpus = [] if run.cluster or run.logical else visible()
    if shape is None:
        message = "its shape is unknown"
        yield run.settings.finding("model", message, "set MODEL_PATH to a local directory", "skip")
    elif not gpus:
        yield Diagnostic("GPU", ABSENT, "no GPU here; `rpg plan` estimates for one", level="skip")
    else:
        yield from needs(run, shape, min(gpu.memory for gpu in gpus))
        for gpu in (gpu for gpu in gpus if gpu.used > IN_USE):
            held = f"other processes hold {gpu.used / GB:.3g} GB: vLLM, or the first update, would lack them in minutes"
            remedy = "end them (nvidia-smi lists them), or choose GPUs by CUDA_VISIBLE_DEVICES"
            yield Diagnostic(f"GPU {gpu.index}", ABSENT, held, remedy, "warning")
        yield host_needs(run, shape, host_limit())


def needs(run: RunConfig, shape: Shape, device: float) -> Findings:
    """Compare memory and KV cache of a model of this shape with a device's bytes."""
    s = run.settings
    phase, size = device_bytes(shape, s, device)
    smaller = f"lower {KEYS['actor_tokens']}, {KEYS['log_prob_tokens']} or {KEYS['memory_share']}"
    remedy = "" if size <= device else f"use more GPUs, {smaller}, or set {KEYS['param_offload']}=true"
    estimate = f"about {size / GB:.3g} GB, in the {phase}; there are {device / GB:.3g} GB a device"
    yield Diagnostic("GPU memory", ABSENT, estimate, remedy, "ok" if size <= device else "error")
    count = kv_tokens(shape, s, device)
    estimate, fits = f"{count:.0f} tokens: {count / s.length:.0f} sequences of full length at once", count >= s.length
    remedy = "" if fits else f"more memory for vLLM, or a smaller {KEYS['response']}"
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
    size = host_bytes(shape, run.settings)
    remedy = "" if size <= limit else "docker run --memory, more nodes, or no offloading"
    estimate = f"about {size / GB:.3g} GB a node; there are {limit / GB:.3g} GB"
    return Diagnostic("host memory", ABSENT, estimate, remedy, "ok" if size <= limit else "error")


def context(run: RunConfig) -> Findings:
    """The model's context holds prompt plus response.

    vLLM would reject it only after minutes.
    """
    s, shape = run.settings, _shape(run)
    if shape is not None and shape.positions is not None and s.context is not None and s.context > shape.positions:
        message = f"is beyond the {shape.positions} tokens of the model's context (max_position_embeddings)"
        yield s.error("context", message, f"lower {KEYS['response']}, or use another model")


def entropy(run: RunConfig) -> Findings:
    """On GPUs the entropy of old log-probs is compiled, chunked or fused.

    Otherwise three float32 copies of the logits exist at once: 60 GB at 32,768 tokens of a vocabulary of 152,064.
    """
    s, shape = run.settings, _shape(run)
    if shape is None or s.device == "cpu" or not (size := entropy_bytes(shape.vocabulary, s)):
        return
    message = f"makes the entropy of old log-probs take {size * log_prob_tokens(s) / GB:.3g} GB beside the logits"
    yield s.finding("compiled", message, f"set it to true, or {KEYS['chunked_entropy']}=true", "warning")


def weight_bucket(run: RunConfig) -> Findings:
    """The bucket holds the largest weight; without CUDA, /dev/shm holds one bucket per rank.

    verl sends a larger weight by itself. It refuses to without CUDA, and an unmerged adapter's base weights lie on the
    CPU, where vLLM's side raises IndexError, both at the first synchronisation. Writing beyond /dev/shm kills the
    process without a message.
    """
    s, shape = run.settings, _shape(run)
    if shape is None:
        return
    number, bucket = bytes_of(s.model_dtype), s.bucket
    size = shape.largest * number
    if size > bucket * MIB:
        message = f"does not hold the model's largest weight, {size / MIB:.0f} MiB"
        fails = s.device == "cpu" or (s.lora_rank and not s.merges_lora)
        level: Level = "error" if fails else "warning"
        yield s.finding("bucket", message, f"set it to {math.ceil(size / MIB)} or more", level)
    if s.device != "cpu":
        return
    need = s.gpus * min(bucket * MIB, shape.parameters * number)
    free = shutil.disk_usage("/dev/shm").free
    if need > free and not run.cluster:
        message = f"/dev/shm has {free / MIB:.0f} MiB free, and the buckets of all ranks need {need / MIB:.0f}"
        yield s.error("bucket", message, "give the container more (docker run --shm-size)")


def nearest(path: Path) -> Path:
    """Return the path or its nearest parent that exists, as far as this user may look."""
    return next(folder for folder in (path, *path.parents) if os.path.exists(folder))


def disk(run: RunConfig) -> Findings:
    """Two checkpoints fit on the disk; a warning if the others to keep do not.

    Without space for two, a failure while the second is written could leave none.
    """
    if (shape := _shape(run)) is not None:
        yield from checkpoints_fit(run, shape)


def checkpoints_fit(run: RunConfig, shape: Shape) -> Findings:
    """Compare the size of the run's checkpoints with the free space; it reuses the space of earlier ones."""
    s, target = run.settings, run.directory.absolute()
    size, most = checkpoint_bytes(shape, s), checkpoints_at_once(s)
    place = nearest(target)
    free = shutil.disk_usage(place).free
    saved = 0
    if s.resume_mode != "disable" and s.kept:
        saved = min(len(steps(target)), most)
    result = f"{most} at once of {size / GB:.3g} GB; there are {free / GB:.3g} GB free at {place}"
    if saved:
        result += f", and {saved} of them are there already"
    level: Level = "ok"
    if most * size > free + saved * size:
        level = "error" if min(most, 2) * size > free + saved * size else "warning"
    remedy = "" if level == "ok" else "set CKPTS_DIR elsewhere"
    if remedy and most > 2:
        remedy += f", or {KEYS['kept']}=2"
    yield Diagnostic("checkpoints", ABSENT, result, remedy, level)
