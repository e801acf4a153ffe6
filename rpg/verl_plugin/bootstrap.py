"""verl's bootstrap of validation metrics, the same numbers for less work.

Where a problem has several answers, verl draws a thousand subsets of them for every problem, variable and number of
answers, and reduces each in Python: six million calls after 256 problems with four answers each, 12 s in which nothing
else goes on (docs/benchmarks.md). Four answers have only 256 ordered subsets of four, and 16 of two.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np


def install() -> None:
    """Put our bootstrap in the place of verl's, in this process; safe to call more than once."""
    from verl.trainer.ppo import metric_utils

    metric_utils.bootstrap_metric = bootstrap_metric


def bootstrap_metric(
    data: Sequence[Any],
    subset_size: int,
    reduce_fns: Sequence[Callable[..., Any]],
    n_bootstrap: int = 1000,
    seed: int = 42,
) -> list[tuple[float, float]]:
    """Mean and standard deviation over random subsets of data, drawn with replacement, of each of reduce_fns.

    The draws are verl's, and so, bit for bit, are the results; each different subset is reduced once. Leaves numpy's
    global generator as verl's does.
    """
    np.random.seed(seed)
    np.random.choice(len(data), size=(n_bootstrap, subset_size), replace=True)
    subsets, drawn = _subsets(len(data), subset_size, n_bootstrap, seed)
    values = np.array(data, dtype=object)
    results = []
    for reduce in reduce_fns:
        if reduce in (np.max, np.min):  # all but verl's vote
            reduced = reduce(values[subsets], axis=1)
        else:
            reduced = [reduce(values[subset]) for subset in subsets]
        reduced = np.asarray(reduced, dtype=np.float64)[drawn]
        results.append((float(np.mean(reduced)), float(np.std(reduced))))
    return results


@functools.lru_cache
def _subsets(count: int, size: int, draws: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """The different ones of draws subsets of range(count), (different, size); and which of them each draw is."""
    drawn = np.random.RandomState(seed).choice(count, size=(draws, size), replace=True)
    different, which = np.unique(drawn, axis=0, return_inverse=True)
    return different, which.reshape(-1)
