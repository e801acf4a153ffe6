"""Checks of the machine: devices, /dev/shm, disk."""

import os
import shutil
import sys

from rpg.config.run_config import RunConfig
from rpg.config.verl_keys import FSDP, MODEL, RAY, ROLLOUT
from rpg.diagnostics import ABSENT, Diagnostic, Findings
from rpg.files.integrity import steps
from rpg.names import MOVING_REFERENCES
from rpg.plan import GB, bytes_of, shape_of, state

GPUS, KEPT = "trainer.n_gpus_per_node", "trainer.max_actor_ckpt_to_keep"
MIB = 2**20


def devices(run: RunConfig) -> Findings:
    """The machine, or the Ray that the run starts, has the GPUs of the run.

    Ray would wait for missing GPUs. verl checks a cluster's devices after submission.
    """
    if run.cluster:
        return
    need, present = run.devices + run.rollout_devices, run[f"{RAY}.num_gpus"]
    place, remedy = f"{RAY}.num_gpus is", f"set {RAY}.num_gpus to {need}"
    if present is None:
        import torch

        present, place = torch.cuda.device_count(), f"torch {torch.__version__} of {sys.prefix} sees"
        remedy = f"lower {GPUS}, set RAY_ADDRESS, use profile=cpu, or activate scripts/setup_gpu.sh's environment"
    if present < need:
        message = f"the run needs {need} GPUs on {run['trainer.nnodes']} nodes, and {place} {present}"
        yield run.error(GPUS, message, remedy)


SHARED_MEMORY = 2**30  # bytes; NCCL's documentation asks for 1 GB in a container
QUEUE = 160 * MIB  # bytes: the queue of vLLM's engine to its workers (10 chunks of 16 MiB)
BUCKET = f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes"


def shared_memory(run: RunConfig) -> Findings:
    """/dev/shm has space for NCCL, data loaders and vLLM's queues on GPUs, on a CPU for a bucket of weights per rank.

    A process that writes beyond /dev/shm is killed without a message; Ray only moves its objects to a disk.
    """
    shape, on_cpu = shape_of(run[f"{MODEL}.path"]), run["trainer.device"] == "cpu"
    if run.cluster or (on_cpu and shape is None):
        return
    need, free = SHARED_MEMORY + run[GPUS] * QUEUE, shutil.disk_usage("/dev/shm").free
    if on_cpu and shape:
        need = run[GPUS] * min(run[BUCKET] * MIB, shape.parameters * bytes_of(run[f"{FSDP}.model_dtype"]))
    if free < need:
        message = f"has {free / 1e6:.0f} MB free, and the run needs {need / 1e6:.0f} MB"
        remedy = "docker run --shm-size=16g (or --ipc=host); without docker, mount -o remount,size=16g /dev/shm"
        yield Diagnostic("/dev/shm", ABSENT, message, remedy)


def disk(run: RunConfig) -> Findings:
    """The checkpoints to keep fit on the disk, two at least: a failure while one is written must leave another.

    A checkpoint has weights, two moments, and a moving reference; every rank writes its shards.
    """
    shape = shape_of(run[f"{MODEL}.path"])
    if shape is None or run["trainer.save_freq"] < 1 or run["trainer.val_only"]:
        return
    weights, moments = state(shape, run)
    size = weights * (1 + (run.rpg.reference.mode in MOVING_REFERENCES)) + moments
    target = run.directory.absolute()
    place = next(folder for folder in (target, *target.parents) if os.path.exists(folder))
    free = shutil.disk_usage(place).free
    saves, kept = (run["trainer.total_training_steps"] or 0) // run["trainer.save_freq"], run[KEPT]
    count = max(2, min(kept or saves, saves))
    there = min(len(steps(target)), count) if run["trainer.resume_mode"] != "disable" else 0
    if (count - there) * size > free:
        need = f"{count} checkpoints ({run.shown(KEPT)}) need {count * size / GB:.3g} GB"
        message = f"{need}, and {place} has {free / GB:.3g} GB free"
        yield run.error("trainer.default_local_dir", message, "set CKPTS_DIR to a larger disk")
