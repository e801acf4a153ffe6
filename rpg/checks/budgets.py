"""Memory and disk: what the settings need, estimated, against what is there."""

import math
import shutil
from collections.abc import Iterator
from pathlib import Path

from rpg.checks import memory as device_memory
from rpg.checks.check import ABSENT, Diagnostic, Level, Run, check
from rpg.checks.estimate import GB, MIB, PROMPT, Shape, bytes_of, checkpoint_bytes, checkpoints_at_once, shape_of
from rpg.checks.machine import RUN_DIR
from rpg.checks.settings import ACTOR, BUCKET, MODEL, ROLLOUT
from rpg.files.integrity import steps

SHAPE = f"{MODEL}.path"
NUMBERS = ("trainer.n_gpus_per_node", "trainer.nnodes", ACTOR, ROLLOUT, "data.max_prompt_length",
           "data.max_response_length", "data.train_batch_size", "rpg.gpu_memory")  # fmt: skip


def _shape(run: Run) -> Shape | None:
    """The shape of the run's model; None where it is not known, of which the check `memory` tells."""
    try:
        return shape_of(str(run.get(SHAPE)))
    except ValueError:
        return None


def _planned(run: Run) -> float:
    """Bytes of the GPUs that the settings are for."""
    return run.get("rpg.gpu_memory") * GB


def _bytes_of_a_device(run: Run) -> float | None:
    """A share of the host's memory where devices are logical, None where there is no device to ask."""
    if run.cluster:
        return None
    if run.logical:
        import psutil

        return psutil.virtual_memory().available / run.devices
    import torch

    present = range(torch.cuda.device_count())
    return min((torch.cuda.get_device_properties(index).total_memory for index in present), default=None)


@check("memory", "what training, rollout and KV cache need fits a device", SHAPE, *NUMBERS, cost="thorough",
       subject="machine")  # fmt: skip
def memory(run: Run) -> Iterator[Diagnostic]:
    """Estimates, each with its terms; they do not replace a trial of a few steps."""
    try:
        shape = shape_of(str(run.get(SHAPE)))
    except ValueError as error:
        yield Diagnostic(SHAPE, run.get(SHAPE), str(error), level="warning")
        return
    if shape is None:
        wrong = "its shape is not known here"
        yield Diagnostic(SHAPE, run.get(SHAPE), wrong, "set MODEL_PATH to a local directory", "skip")
    else:
        yield from needs(run, shape, _bytes_of_a_device(run))


def needs(run: Run, shape: Shape, device: float | None) -> Iterator[Diagnostic]:
    """Every phase and the KV cache of a model of this shape against the bytes of a device."""
    there = f"there are {device / GB:.3g} GB a device" if device else "no device here to compare with"
    for phase in device_memory.phases(shape, run.config, run.devices, device or _planned(run)):
        if run.logical and phase.name != "update":  # one host's memory, of which vLLM takes what its variable says
            continue
        level: Level = "skip" if device is None else "ok" if phase.size <= device else "error"
        remedy = (
            "more devices, smaller token budgets, gpu_memory_utilization, or offloading" if level == "error" else ""
        )
        yield Diagnostic(phase.name, ABSENT, f"about {phase}; {there}", remedy, level)
    if device is not None and not run.logical:
        count = device_memory.kv_tokens(shape, run.config, device)
        length = run.get("data.max_prompt_length") + run.get("data.max_response_length")
        found, fits = f"{count:.0f} tokens: {count / length:.0f} sequences of full length at once", count >= length
        remedy = "" if fits else "more memory for vLLM, or a smaller data.max_response_length"
        yield Diagnostic("KV cache", ABSENT, found, remedy, "ok" if fits else "error")


@check("context", "the model was made for prompt and response, and the cache holds what vLLM decodes at once", SHAPE,
       *NUMBERS)  # fmt: skip
def context(run: Run) -> Iterator[Diagnostic]:
    """The arithmetic of config/context/*.yaml, for a GPU of rpg.gpu_memory GB; a larger one takes more."""
    shape, length = _shape(run), run.get(f"{ROLLOUT}.max_model_len")
    if shape is None:
        return
    if length is not None and shape.positions is not None and length > shape.positions:
        wrong = f"is beyond the {shape.positions} tokens that the model was made for (max_position_embeddings)"
        yield Diagnostic(f"{ROLLOUT}.max_model_len", length, wrong,
                      "shorten data.max_response_length, or take another model")  # fmt: skip
    if run.logical:
        return
    share = run.get(f"{ROLLOUT}.gpu_memory_utilization")
    planned = _planned(run)
    [together] = [
        phase for phase in device_memory.phases(shape, run.config, run.devices, planned) if phase.name == "rollout"
    ]
    if together.size > planned:
        wrong = f"vLLM and the actor together need {together}"
        yield Diagnostic(f"{ROLLOUT}.gpu_memory_utilization", share, wrong, "lower it, or offload the actor", "warning")
    most = run.get(f"{ROLLOUT}.max_num_seqs")
    mean = PROMPT + run.get("data.max_response_length") / 2
    held = device_memory.kv_tokens(shape, run.config, planned) / mean
    if most > held:
        wrong = f"is more than the {held:.0f} sequences half-way through ({mean:.0f} tokens) that the KV cache holds"
        yield Diagnostic(f"{ROLLOUT}.max_num_seqs", most, wrong, f"take {max(int(held), 1)}", "warning")


def _through_shared_memory(run: Run) -> Shape | None:
    """The model whose weights vLLM gets through /dev/shm, as on every device without CUDA's; None for another."""
    return _shape(run) if run.get("trainer.device") == "cpu" else None


@check("weight bucket", "without CUDA the bucket that takes weights to vLLM holds the largest of them", SHAPE, BUCKET,
       "trainer.device", f"{ACTOR}.fsdp_config", subject="files")  # fmt: skip
def weight_bucket(run: Run) -> Iterator[Diagnostic]:
    """verl's BucketedWeightSender sends a larger one by CUDA IPC alone, and fails at the first synchronisation."""
    shape = _through_shared_memory(run)
    if shape is None:
        return
    size = shape.largest * bytes_of(run.get(f"{ACTOR}.fsdp_config.model_dtype"))
    if size > run.get(BUCKET) * MIB:
        wrong = f"does not hold the model's largest weight, {size / MIB:.0f} MiB"
        yield Diagnostic(BUCKET, run.get(BUCKET), wrong, f"set it to {math.ceil(size / MIB)} or more")


@check("shared memory", "without CUDA /dev/shm has room for every rank's bucket", SHAPE, BUCKET, "trainer.device",
       f"{ACTOR}.fsdp_config", "trainer.n_gpus_per_node", subject="machine")  # fmt: skip
def shared_memory(run: Run) -> Iterator[Diagnostic]:
    """A container's 64 MiB; a process that writes beyond them is killed by SIGBUS, without a word."""
    shape = _through_shared_memory(run)
    if shape is None or run.cluster:
        return
    whole = shape.parameters * bytes_of(run.get(f"{ACTOR}.fsdp_config.model_dtype"))
    need = run.get("trainer.n_gpus_per_node") * min(run.get(BUCKET) * MIB, whole)
    free = shutil.disk_usage("/dev/shm").free
    if need > free:
        wrong = f"/dev/shm has {free / MIB:.0f} MiB free, and the buckets of all ranks take {need / MIB:.0f}"
        yield Diagnostic(BUCKET, run.get(BUCKET), wrong, "give the container more (docker run --shm-size)")


@check("disk", "two checkpoints fit where they will be written; what is to be kept besides, or it is warned", SHAPE,
       RUN_DIR, "trainer.total_training_steps", "trainer.save_freq", "trainer.max_actor_ckpt_to_keep",
       "trainer.resume_mode", "rpg.reference.mode", subject="machine")  # fmt: skip
def disk(run: Run) -> Iterator[Diagnostic]:
    """With less than two there is a moment, while the second is written, after which there would be none."""
    if (shape := _shape(run)) is not None:
        yield from checkpoints_fit(run, shape)


def checkpoints_fit(run: Run, shape: Shape) -> Iterator[Diagnostic]:
    """The checkpoints of a model of this shape against the free space; those of earlier starts make room for new."""
    one, most = checkpoint_bytes(shape, run.config), checkpoints_at_once(run.config)
    target = Path(run.get(RUN_DIR)).expanduser().absolute()
    place = next(folder for folder in (target, *target.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    there = 0
    if run.get("trainer.resume_mode") != "disable" and run.get("trainer.max_actor_ckpt_to_keep"):
        there = min(len(steps(target)), most)
    found = f"{most} at once of {one / GB:.3g} GB; there are {free / GB:.3g} GB free at {place}"
    if there:
        found += f", and {there} of them are there already"
    level: Level = "ok"
    if most * one > free + there * one:
        level = "error" if min(most, 2) * one > free + there * one else "warning"
    remedy = "" if level == "ok" else "set CKPTS_DIR elsewhere, or trainer.max_actor_ckpt_to_keep=2"
    yield Diagnostic("checkpoints", ABSENT, found, remedy, level)
