"""Checks that compare the memory and disk that a run needs with the machine's."""

import math
import os
import shutil

from rpg.config.run_config import RunConfig
from rpg.config.verl_keys import ACTOR, FSDP, MODEL, ROLLOUT
from rpg.diagnostics import ABSENT, Diagnostic, Findings
from rpg.files.integrity import steps
from rpg.gpu_host import visible
from rpg.names import MOVING_REFERENCES
from rpg.plan import GB, Shape, bytes_of, copies, estimate, shape_of, state

MIB = 2**20
BUCKET = f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes"


def _shape(run: RunConfig) -> Shape | None:
    """Return the model's shape, or None if it is unknown (the check `memory` then reports it)."""
    try:
        return shape_of(run[f"{MODEL}.path"])
    except ValueError:
        return None


def memory(run: RunConfig) -> Findings:
    """The run fits the GPUs here, by the estimate of `rpg plan`."""
    try:
        shape = shape_of(run[f"{MODEL}.path"])
    except ValueError as error:
        yield run.error(f"{MODEL}.path", str(error), "", "warning")
        return
    gpus = [] if run.cluster or run.logical else visible()
    if shape is None:
        yield run.error(f"{MODEL}.path", "its shape is unknown", "set MODEL_PATH to a local directory", "skip")
    elif not gpus:
        yield Diagnostic("GPU", ABSENT, "no GPU here; `rpg plan` estimates for one", level="skip")
    else:
        yield fit(run, shape, min(gpu.memory for gpu in gpus))


def fit(run: RunConfig, shape: Shape, device: float) -> Diagnostic:
    """Compare the estimate for a model of this shape with a device's bytes."""
    fits, lines = estimate(shape, run, device)
    more = f"more GPUs, {FSDP}.param_offload=true, another {ROLLOUT}.gpu_memory_utilization, or a smaller"
    remedy = "" if fits else f"use {more} {ACTOR}.ppo_max_token_len_per_gpu or data.max_response_length"
    needs = "; ".join(" ".join(line.split()) for line in lines)
    message = f"{device / GB:.3g} GB {'hold' if fits else 'do not hold'} the run: {needs}"
    return Diagnostic("GPU memory", ABSENT, message, remedy, "ok" if fits else "error")


def weight_bucket(run: RunConfig) -> Findings:
    """The bucket holds the largest weight; without CUDA, /dev/shm holds one bucket per rank.

    verl sends a larger weight by itself. It refuses to without CUDA, and an unmerged adapter's base weights lie on the
    CPU, where vLLM's side raises IndexError, both at the first synchronisation. Writing beyond /dev/shm kills the
    process without a message.
    """
    shape = _shape(run)
    if shape is None:
        return
    number, bucket, on_cpu = bytes_of(run[f"{FSDP}.model_dtype"]), run[BUCKET], run["trainer.device"] == "cpu"
    size = shape.largest * number
    if size > bucket * MIB:
        message = f"does not hold the model's largest weight, {size / MIB:.0f} MiB"
        fails = on_cpu or (run[f"{MODEL}.lora_rank"] and not run[f"{MODEL}.lora.merge"])
        yield run.error(BUCKET, message, f"set it to {math.ceil(size / MIB)} or more", "error" if fails else "warning")
    need = run["trainer.n_gpus_per_node"] * min(bucket * MIB, shape.parameters * number)
    free = shutil.disk_usage("/dev/shm").free
    if on_cpu and need > free and not run.cluster:
        message = f"/dev/shm has {free / MIB:.0f} MiB free, and the buckets of all ranks need {need / MIB:.0f}"
        yield run.error(BUCKET, message, "give the container more (docker run --shm-size)")


def disk(run: RunConfig) -> Findings:
    """Two checkpoints fit on the disk: otherwise a failure while the second is written could leave none.

    A checkpoint has weights, two moments, and a moving reference; every rank writes its shards.
    """
    shape = _shape(run)
    if shape is None or run["trainer.save_freq"] < 1 or run["trainer.val_only"]:
        return
    weights, moments = state(shape, run)
    size = copies(run) * (weights * (1 + (run.rpg.reference.mode in MOVING_REFERENCES)) + moments)
    target = run.directory.absolute()
    place = next(folder for folder in (target, *target.parents) if os.path.exists(folder))
    free = shutil.disk_usage(place).free
    there = min(len(steps(target)), 2) if run["trainer.resume_mode"] != "disable" else 0
    if (2 - there) * size > free:
        message = f"two checkpoints need {2 * size / GB:.3g} GB; there are {free / GB:.3g} GB free at {place}"
        yield run.error("trainer.default_local_dir", message, "set CKPTS_DIR elsewhere")
