"""Hours and disk that the rest of a reproduction takes: measured in its runs, before that as `rpg plan` estimates."""

import shutil
import statistics
from collections.abc import Sequence
from pathlib import Path

from rpg.checks.estimate import GB, GPU, RATES, Shape, checkpoint_bytes, checkpoints_at_once, shape_of, step_seconds
from rpg.files.integrity import steps
from rpg.results.config import setting
from rpg.results.reproduction import State

MODEL = "actor_rollout_ref.model.path"


def time(states: Sequence[State], gpu: GPU | None, parallel: int) -> str:
    """One line: the time of the trainings that are missing. gpu: what it is estimated for, None for no estimate."""
    missing = [state for state in states if not state.finished]
    if not missing:
        return "time: no training is missing"
    width = min(parallel, len(missing))

    def together(seconds: Sequence[float]) -> str:
        """What runs of these times take, `width` of them at a time: not less than the longest of them."""
        return duration(max(sum(seconds) / width, *seconds))

    at_once = f", {width} at a time" if width > 1 else ""
    if measured := [state.seconds for state in states if state.seconds is not None]:
        step = statistics.median(measured)
        total = together([state.left * step for state in missing])
        return f"time: {total}{at_once}: {step:.3g} s a step, measured in {len(measured)} of these runs"
    shape = None if gpu is None else _shape(missing[0])
    if gpu is None or shape is None:
        return "time: not known before the first step"
    trainer = missing[0].run.config["trainer"]
    devices = trainer["n_gpus_per_node"] * trainer["nnodes"]
    fast, slow = (
        together([state.left * step_seconds(shape, state.run.config, gpu, devices, rates) for state in missing])
        for rates in RATES
    )
    return f"time: {fast} to {slow}{at_once}, on {devices} x {gpu.name}; an estimate, explained by `rpg plan SCRIPT`"


def disk(states: Sequence[State], parallel: int, out: Path) -> tuple[str, bool]:
    """One line: what the missing checkpoints take; and whether it is free. While a run saves it may have one more."""
    need, largest, known = 0.0, 0.0, 0
    for state in states:
        if state.finished or (shape := _shape(state)) is None:
            continue
        known += 1
        size, most = checkpoint_bytes(shape, state.run.config), checkpoints_at_once(state.run.config)
        kept = min(most, setting(state.run.config, "trainer.max_actor_ckpt_to_keep") or most)
        need += size * max(kept - len(steps(state.run.directory)), 0)
        largest = max(largest, size * (most - kept))
    if not known:
        return "disk: nothing is missing, or the model's shape is not known here", True
    need += largest * min(parallel, known)
    place = next(folder for folder in (out, *out.parents) if folder.exists())
    free = shutil.disk_usage(place).free
    line = f"disk: {need / GB:.3g} GB for the checkpoints of {known} runs; {free / GB:.3g} GB are free at {place}"
    remedy = "take trainer.max_actor_ckpt_to_keep=1, fewer seeds or another --out"
    return (line, True) if need <= free else (f"{line}: DOES NOT FIT; {remedy}", False)


def _shape(state: State) -> Shape | None:
    """The shape of a run's model; None where it is not known here, or its configuration lacks what says it."""
    try:
        return shape_of(str(setting(state.run.config, MODEL)))
    except ValueError:  # which the run's own checks name
        return None


def duration(seconds: float) -> str:
    """Seconds in words."""
    return f"{seconds / 60:.1f} minutes" if seconds < 5400 else f"{seconds / 3600:.3g} hours"
