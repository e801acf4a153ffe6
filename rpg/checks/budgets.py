"""Memory and disk: what the settings need, estimated, against what is there; asked by `rpg doctor`."""

import math
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from rpg.checks import estimate, step_time
from rpg.checks.finding import ABSENT, Finding, Level, Run, check
from rpg.checks.machine import RUN_DIR
from rpg.files.integrity import steps

SHAPE = ("actor_rollout_ref.model.path",)
NUMBERS = (
    "trainer.n_gpus_per_node",
    "trainer.nnodes",
    "actor_rollout_ref.actor",
    "actor_rollout_ref.rollout",
    "data.max_prompt_length",
    "data.max_response_length",
)


def _device_memory(run: Run) -> float | None:
    """Bytes of one device, a share of the host's where devices are logical, None where there is none to ask."""
    if run.logical and not run.cluster:
        import psutil

        return psutil.virtual_memory().available / run.devices
    if run.cluster:
        return None
    import torch

    present = range(torch.cuda.device_count())
    return min((torch.cuda.get_device_properties(index).total_memory for index in present), default=None)


@check("memory", "what training, rollout and KV cache need fits a device", *SHAPE, *NUMBERS, "data.train_batch_size",
       cost="thorough", subject="machine")  # fmt: skip
def memory(run: Run) -> Iterator[Finding]:
    """Estimates, each with its formula; they do not replace a trial of a few steps."""
    try:
        shape = estimate.shape_of(str(run.get(SHAPE[0])))
    except ValueError as error:
        yield Finding(SHAPE[0], run.get(SHAPE[0]), str(error), level="warning")
        return
    if shape is None:
        wrong = "its shape is not known here"
        yield Finding(SHAPE[0], run.get(SHAPE[0]), wrong, "set MODEL_PATH to a local directory", "skip")
        return
    yield from needs(run, shape, _device_memory(run), _traced(run) or estimate.training(shape, run.config, run.devices))


def _traced(run: Run) -> estimate.Estimate | None:
    """The update's peak as rpg plan traces it; None where that is not possible, and a formula has to do.

    For the paper's runs the formula says a quarter more (33.4 GB for 26.8 of a 7B model): it counts the logits in fp32
    as well, which flash-attn's cross-entropy does not make. It knows nothing of gathered layers and temporaries.
    """
    from rpg.checks.trace import trace

    try:
        found = trace(run.config, run.devices, reference=False).update
    except ValueError:
        return None
    parts = ", ".join(f"{size / estimate.GB:.3g} {kind}" for kind, size in found.parts.items())
    return estimate.Estimate(found.total, f"traced (rpg plan): {parts}")


def needs(run: Run, shape: estimate.Shape, device: float | None, training: estimate.Estimate) -> Iterator[Finding]:
    """Training, rollout and KV cache of a model of this shape against the bytes of a device."""
    if device is None:
        yield Finding("training", ABSENT, f"about {training} a device", "no device here to compare with", "skip")
        return
    there = f"{device / estimate.GB:.3g} GB a device"
    remedy = "more devices, a smaller ppo_max_token_len_per_gpu, or fsdp_config offloading"
    yield _compared("training", training, device, there, remedy)
    if run.logical:
        given = os.environ.get("VLLM_CPU_KVCACHE_SPACE") or run.get("rpg.env", {}).get("VLLM_CPU_KVCACHE_SPACE", 4)
        cache = float(given) * 2**30
    else:
        cache = run.get("actor_rollout_ref.rollout.gpu_memory_utilization") * device
        remedy = "lower rollout.gpu_memory_utilization, or offload the actor (param_offload)"
        rollout = estimate.rollout(shape, run.config, run.devices, device)
        yield _compared("rollout", rollout, device, there, remedy)
    count, formula = estimate.kv_sequences(shape, run.config, cache, weights_in_it=not run.logical)
    found = f"{count:.0f} full sequences at once = {formula}"
    remedy = "" if count >= 1 else "more memory for vLLM, or a smaller data.max_response_length"
    yield Finding("KV cache", ABSENT, found, remedy, "ok" if count >= 1 else "error")


def _compared(what: str, need: estimate.Estimate, there: float, words: str, remedy: str) -> Finding:
    fits = need.size <= there
    return Finding(what, ABSENT, f"about {need}; there are {words}", "" if fits else remedy, "ok" if fits else "error")


ROLLOUT = "actor_rollout_ref.rollout"
RATE = "trainer.save_freq"
SMALLEST, SLOWEST, USUAL = 80e9, estimate.GPUS["a100"], estimate.GPUS["h100"]  # of those the scripts are for
RISK = 8 * 3600  # seconds of work that a crash may cost


@check("context", "the cache holds what vLLM decodes at once, a step fits twice into the stall limit, and checkpoints "
       "come often enough", *SHAPE, *NUMBERS, "actor_rollout_ref.model", "algorithm.filter_groups.enable",
       "algorithm.use_kl_in_reward", "data.train_batch_size", "rpg.stall_limit", RATE, "trainer.test_freq")  # fmt: skip
def context(run: Run) -> Iterator[Finding]:
    """The arithmetic of config/context/*.yaml, for a GPU of 80 GB; a larger one can take more than it warns of."""
    try:
        shape = estimate.shape_of(str(run.get(SHAPE[0])))
    except ValueError:
        return
    length, key = run.get(f"{ROLLOUT}.max_model_len"), f"{ROLLOUT}.max_model_len"
    if shape is None:
        return
    if length is not None and shape.positions is not None and length > shape.positions:
        wrong = f"is beyond the {shape.positions} tokens that the model was made for (max_position_embeddings)"
        yield Finding(key, length, wrong, "shorten data.max_response_length, or take another model")
    if run.logical:
        return
    if length is None:
        wrong = "makes vLLM plan for the longest sequence of the model"
        yield Finding(key, None, wrong, "set prompt and response", "warning")
    yield from _cache(run, shape)
    yield from _time(run, shape)


def _cache(run: Run, shape: estimate.Shape) -> Iterator[Finding]:
    share = run.get(f"{ROLLOUT}.gpu_memory_utilization")
    together = estimate.rollout(shape, run.config, run.devices, SMALLEST)
    if together.size > SMALLEST:
        wrong = f"vLLM and the actor together need {together}"
        yield Finding(f"{ROLLOUT}.gpu_memory_utilization", share, wrong, "lower it, or offload the actor", "warning")
    most = run.get(f"{ROLLOUT}.max_num_seqs")
    tokens = estimate.kv_tokens(shape, run.config, SMALLEST)
    mean = step_time.PROMPT + run.get("data.max_response_length") / 2
    if most * mean > max(tokens, 0):
        wrong = (
            f"is more than the {tokens / mean:.0f} sequences half-way through ({step_time.PROMPT} + half the response "
            f"= {mean:.0f} tokens) that the {tokens:.0f} tokens of the cache hold: vLLM would stop some and begin again"
        )
        yield Finding(f"{ROLLOUT}.max_num_seqs", most, wrong, f"take {max(int(tokens / mean), 1)}", "warning")


def _time(run: Run, shape: estimate.Shape) -> Iterator[Finding]:
    limit, every = run.get("rpg.stall_limit"), run.get(RATE)
    slow = step_time.step(shape, run.config, SLOWEST, run.devices, step_time.SLOW)
    if limit is not None and limit < 2 * slow:
        wrong = f"a slow step takes {slow:.0f} s on {SLOWEST.name}, by estimate: it would end a sound run"
        yield Finding("rpg.stall_limit", limit, wrong, f"take {2 * slow:.0f} or more", "warning")
    usual = step_time.step(shape, run.config, USUAL, run.devices, step_time.SLOW)
    if every > 1 and every * usual > RISK:
        wrong = f"a crash costs up to {every} steps of {usual:.0f} s on {USUAL.name}, {every * usual / 3600:.0f} hours"
        yield Finding(RATE, every, wrong, f"take {max(int(RISK / usual), 1)}", "warning")


BUCKET = f"{ROLLOUT}.checkpoint_engine.update_weights_bucket_megabytes"
MIB = 2**20


def _through_shared_memory(run: Run) -> estimate.Shape | None:
    """The model whose weights vLLM gets through /dev/shm, as on every device without CUDA's; None for another."""
    if run.get("trainer.device") != "cpu":
        return None
    try:
        return estimate.shape_of(str(run.get(SHAPE[0])))
    except ValueError:
        return None  # `rpg doctor` says so: memory


@check("weight bucket", "without CUDA the bucket that takes weights to vLLM holds the largest of them", *SHAPE, BUCKET,
       "trainer.device", "actor_rollout_ref.actor.fsdp_config", subject="files")  # fmt: skip
def weight_bucket(run: Run) -> Iterator[Finding]:
    """verl's BucketedWeightSender sends a larger one by CUDA IPC alone, and fails at the first synchronisation."""
    shape = _through_shared_memory(run)
    if shape is None:
        return
    size = shape.largest * estimate.bytes_of(run.get("actor_rollout_ref.actor.fsdp_config.model_dtype"))
    if size > run.get(BUCKET) * MIB:
        wrong = f"does not hold the model's largest weight, {size / MIB:.0f} MiB"
        yield Finding(BUCKET, run.get(BUCKET), wrong, f"set it to {math.ceil(size / MIB)} or more")


@check("shared memory", "without CUDA /dev/shm has room for every rank's bucket", *SHAPE, BUCKET, "trainer.device",
       "actor_rollout_ref.actor.fsdp_config", "trainer.n_gpus_per_node", subject="machine")  # fmt: skip
def shared_memory(run: Run) -> Iterator[Finding]:
    """A container's 64 MiB; a process that writes beyond them is killed by SIGBUS, without a word."""
    shape = _through_shared_memory(run)
    if shape is None or run.cluster:
        return
    whole = shape.parameters * estimate.bytes_of(run.get("actor_rollout_ref.actor.fsdp_config.model_dtype"))
    need = run.get("trainer.n_gpus_per_node") * min(run.get(BUCKET) * MIB, whole)
    free = shutil.disk_usage("/dev/shm").free
    if need > free:
        wrong = f"/dev/shm has {free / MIB:.0f} MiB free, and the buckets of all ranks take {need / MIB:.0f}"
        yield Finding(BUCKET, run.get(BUCKET), wrong, "give the container more (docker run --shm-size)")


@check("disk", "two checkpoints fit where they will be written; what is to be kept besides, or it is warned", *SHAPE,
       RUN_DIR, "trainer.total_training_steps", "trainer.save_freq", "trainer.max_actor_ckpt_to_keep",
       "trainer.resume_mode", "rpg.reference.mode", subject="machine")  # fmt: skip
def disk(run: Run) -> Iterator[Finding]:
    """With less than two there is a moment, while the second is written, after which there would be none."""
    try:
        shape = estimate.shape_of(str(run.get(SHAPE[0])))
    except ValueError:
        return  # memory has said so
    if shape is not None:
        yield from checkpoints_fit(run, shape)


def checkpoints_fit(run: Run, shape: estimate.Shape) -> Iterator[Finding]:
    """The checkpoints of a model of this shape against the free space; those of earlier starts make room for new."""
    one, most = estimate.checkpoint(shape, run.config), estimate.checkpoints_at_once(run.config)
    target = Path(run.get(RUN_DIR)).expanduser().absolute()
    place = next(folder for folder in (target, *target.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    there = 0
    if run.get("trainer.resume_mode") != "disable" and run.get("trainer.max_actor_ckpt_to_keep"):
        there = min(len(steps(target)), most)
    found = f"{most} checkpoints at once of {one}; there are {free / estimate.GB:.3g} GB free at {place}"
    if there:
        found += f", and {there} of them are there already"
    level: Level = "ok"
    if most * one.size > free + there * one.size:
        level = "error" if min(most, 2) * one.size > free + there * one.size else "warning"
    remedy = "" if level == "ok" else "set CKPTS_DIR elsewhere, or trainer.max_actor_ckpt_to_keep=2"
    yield Finding("checkpoints", ABSENT, found, remedy, level)
