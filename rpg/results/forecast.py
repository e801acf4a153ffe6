"""What a reproduction will take: hours and disk, by its own runs where they have a step, else by the estimates."""

import shutil
import statistics
from collections.abc import Sequence
from pathlib import Path

from rpg.checks import pace
from rpg.checks.estimate import GB, GPU, Shape, checkpoint, checkpoints_at_once, shape_of
from rpg.files.judge import steps
from rpg.results.config import setting
from rpg.results.reproduction import State
from rpg.results.work import duration

MODEL = "actor_rollout_ref.model.path"


def time(states: Sequence[State], gpu: GPU | None, parallel: int) -> str:
    """The time of the trainings that are missing.

    gpu: what it is estimated for, None for a profile without estimates.
    """
    missing = [state for state in states if not state.finished]
    measured = [state.seconds for state in states if state.seconds is not None]
    if not missing:
        return "time: no training is missing"
    width = min(parallel, len(missing))
    at_once = f", {width} at a time" if width > 1 else ", one after another" if len(missing) > 1 else ""
    if measured:
        step = statistics.median(measured)
        took = _together([state.left * step for state in missing], width)
        return f"time: {duration(took)}{at_once}: {step:.3g} s a step, measured in {len(measured)} of these runs"
    shape = None if gpu is None else _shape(missing[0])
    if gpu is None or shape is None:
        return "time: not known before the first step"
    trainer = missing[0].run.config["trainer"]
    devices = trainer["n_gpus_per_node"] * trainer["nnodes"]
    fast, slow = (
        _together([s.left * pace.step(shape, s.run.config, gpu, devices, end) for s in missing], width)
        for end in ("fast", "slow")
    )
    return (
        f"time: {duration(fast)} to {duration(slow)}{at_once}, on {devices} x {gpu.name}; an estimate, "
        "`rpg plan SCRIPT` says of what"
    )


def _together(takes: Sequence[float], width: int) -> float:
    """What runs of these times take, `width` of them at a time: not less than the longest of them."""
    return max(sum(takes) / width, *takes)


def _shape(state: State) -> Shape | None:
    """The shape of a run's model; None where it is not known here, or its configuration lacks what says it."""
    try:
        return shape_of(str(setting(state.run.config, MODEL)))
    except ValueError:  # which the run's own checks name
        return None


def disk(states: Sequence[State], parallel: int, out: Path) -> tuple[str, bool]:
    """What the checkpoints that are missing take, and whether it is there.

    A run keeps its last ones; while it runs it may have one more.
    """
    need, more, known = 0.0, 0.0, 0
    for state in states:
        shape = None if state.finished else _shape(state)
        if shape is None:
            continue
        known += 1
        size, most = checkpoint(shape, state.run.config).size, checkpoints_at_once(state.run.config)
        kept = min(most, setting(state.run.config, "trainer.max_actor_ckpt_to_keep") or most)
        need += size * max(kept - len(steps(state.run.directory)), 0)
        more = max(more, size * (most - kept))
    if not known:
        missing = any(not state.finished for state in states)
        return ("disk: the model's shape is not known here" if missing else "disk: nothing is missing"), True
    place = next(folder for folder in (out, *out.parents) if folder.exists())
    free, need = shutil.disk_usage(place).free, need + more * min(parallel, known)
    fits = need <= free
    runs = f"{known} runs" if known > 1 else "one run"
    said = f"disk: {gigabytes(need)} for the checkpoints of {runs}; there are {gigabytes(free)} at {place}"
    remedy = "take trainer.max_actor_ckpt_to_keep=1, fewer seeds or another --out"
    return (said if fits else f"{said}: DOES NOT FIT; {remedy}"), fits


def gigabytes(size: float) -> str:
    """Bytes in words."""
    return f"{size / GB:.0f} GB" if size > 100 * GB else f"{size / GB:.3g} GB"
