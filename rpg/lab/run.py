"""Settings measured, in several processes; the numbers do not depend on how many."""

import math
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rpg.lab.train import Scale, Setting, train


@dataclass(frozen=True)
class Value:
    """A mean over seeds and its standard error."""

    mean: float
    error: float


Row = dict[str, Value]  # the fields of Measured
Results = dict[Setting, Row]


def measure(setting: Setting, scale: Scale) -> Row:
    """Train one setting; mean and standard error over seeds of everything measured.

    Raises:
        FloatingPointError: a measurement that is NaN or infinite.
    """
    row = over_seeds(train(setting, scale)._asdict())
    if bad := [name for name, value in row.items() if not math.isfinite(value.mean)]:
        raise FloatingPointError(f"{', '.join(bad)} of {setting}: NaN or infinite")
    return row


def over_seeds(measured: Mapping[str, Tensor]) -> Row:
    """Mean and standard error of each (seeds,); the error of a single seed is NaN."""
    values = {name: per_seed.double() for name, per_seed in measured.items()}
    return {
        name: Value(each.mean().item(), (each.std() / math.sqrt(len(each))).item() if len(each) > 1 else math.nan)
        for name, each in values.items()
    }


def measure_all(
    settings: Sequence[Setting], scale: Scale, workers: int, tell: Callable[[int], None] = lambda done: None
) -> Results:
    """All settings, in their order; `tell` hears how many are done."""
    results: Results = {}
    for setting, row in _measured(settings, scale, workers):
        results[setting] = row
        tell(len(results))
    return results


def _measured(settings: Sequence[Setting], scale: Scale, workers: int) -> Iterator[tuple[Setting, Row]]:
    with multiprocessing.get_context("spawn").Pool(min(workers, len(settings)), _begin) as pool:
        yield from zip(settings, pool.imap(_call, [(setting, scale) for setting in settings]), strict=True)


def _begin() -> None:
    """A worker: one thread, as a sum over threads would depend on how many there are; none outlives its parent."""
    torch.set_num_threads(1)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _call(work: tuple[Setting, Scale]) -> Row:
    return measure(*work)
