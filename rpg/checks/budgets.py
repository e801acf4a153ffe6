"""Checks that compare the memory and disk that a run needs with the machine's."""

import math
import os
import shutil
from pathlib import Path

from rpg.config.keys import KEYS, Settings
from rpg.config.run_config import RunConfig
from rpg.diagnostics import ABSENT, Diagnostic, Findings, Level
from rpg.files.integrity import steps
from rpg.gpu_host import visible
from rpg.names import MOVING_REFERENCES
from rpg.plan import GB, Shape, bytes_of, copies, estimate, shape_of, state

MIB = 2**20


def _shape(run: RunConfig) -> Shape | None:
    """Return the model's shape, or None if it is unknown (the check `memory` then reports it)."""
    try:
        return shape_of(run.settings.model)
    except ValueError:
        return None


def memory(run: RunConfig) -> Findings:
    """The run fits the GPUs here, by the estimate of `rpg plan`."""
    s = run.settings
    try:
        shape = shape_of(s.model)
    except ValueError as error:
        yield s.finding("model", str(error), "", "warning")
        return
    gpus = [] if run.cluster or run.logical else visible()
    if shape is None:
        yield s.finding("model", "its shape is unknown", "set MODEL_PATH to a local directory", "skip")
    elif not gpus:
        yield Diagnostic("GPU", ABSENT, "no GPU here; `rpg plan` estimates for one", level="skip")
    else:
        yield fit(run, shape, min(gpu.memory for gpu in gpus))


def fit(run: RunConfig, shape: Shape, device: float) -> Diagnostic:
    """Compare the estimate for a model of this shape with a device's bytes."""
    fits, lines = estimate(shape, run.settings, device)
    more = f"more GPUs, {KEYS['param_offload']}=true, another {KEYS['memory_share']}, or a smaller"
    remedy = "" if fits else f"use {more} {KEYS['actor_tokens']} or {KEYS['response']}"
    needs = "; ".join(" ".join(line.split()) for line in lines)
    message = f"{device / GB:.3g} GB {'hold' if fits else 'do not hold'} the run: {needs}"
    return Diagnostic("GPU memory", ABSENT, message, remedy, "ok" if fits else "error")


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


def checkpoint_bytes(shape: Shape, s: Settings) -> int:
    """Return the bytes of one checkpoint: weights, two moments, and a moving reference (a fixed one is not saved).

    Every rank writes its shards; an export (hf_model) is written once.
    """
    weights, moments = state(shape, s)
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
