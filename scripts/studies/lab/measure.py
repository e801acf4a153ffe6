"""Measure settings in several processes; the results do not depend on their number."""

import functools
import math
import multiprocessing
import signal
from collections.abc import Mapping, Sequence

import pandas as pd
import torch
from torch import Tensor
from tqdm import tqdm

from scripts.studies.lab.train import Scale, Setting, train


def measure(setting: Setting, scale: Scale) -> dict[str, float]:
    """Train one setting; return mean and standard error over seeds of all measurements, as `over_seeds`.

    Raises:
        FloatingPointError: a measurement is NaN or Inf.
    """
    measured = train(setting, scale)._asdict()
    if bad := [name for name, values in measured.items() if not values.isfinite().all()]:
        raise FloatingPointError(f"{', '.join(bad)} of {setting}: NaN or infinite")
    return over_seeds(measured)


def over_seeds(measured: Mapping[str, Tensor]) -> dict[str, float]:
    """Return `name`, the mean of each (seeds,) tensor, and `name`_se, its standard error (NaN for a single seed)."""
    row: dict[str, float] = {}
    for name, per_seed in measured.items():
        values = per_seed.double()
        row[name] = values.mean().item()
        row[f"{name}_se"] = (values.std() / math.sqrt(len(values))).item() if len(values) > 1 else math.nan
    return row


def measure_all(settings: Sequence[Setting], scale: Scale, workers: int) -> pd.DataFrame:
    """Return one line per setting, indexed by it, with the columns of `over_seeds`.

    A worker has one thread, because sums depend on the number of threads.
    """
    context = multiprocessing.get_context("spawn")
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # the workers inherit it: they leave Ctrl-C to this process
    pool = context.Pool(min(workers, len(settings)), torch.set_num_threads, (1,))
    signal.signal(signal.SIGINT, before)
    with pool:
        rows = pool.imap(functools.partial(measure, scale=scale), settings)
        table = list(tqdm(rows, "settings", len(settings), disable=None))  # None: show only on a terminal
    return pd.DataFrame(table, index=pd.Index(settings, dtype=object))
