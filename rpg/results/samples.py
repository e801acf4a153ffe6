"""Samples of validations, validation/<step>.jsonl: intervals of Mean@k and pass@k."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rpg.dotted import value_at
from rpg.files.atomic import SAMPLES
from rpg.registry.datasets import benchmark_of
from rpg.results.messages import LeftOut, ResultsError
from rpg.results.runs import Run, read_lines

RESAMPLES = 2000
FIELDS = ("input", "gts", "output", "acc")  # required fields of a sample
PROBLEM = "input, gts"  # column that identifies a problem: its input and ground truth, which may be any JSON value
TOLERANCE = 1e-4  # rounding difference between a logged accuracy and the mean of its samples


def read_samples(run: Run, step: int) -> tuple[pd.DataFrame, list[str]]:
    """Return the samples of the validation at `step`, one per row, with data_source, benchmark and PROBLEM, and notes.

    The frame is empty if the run wrote none. Samples of a set whose mean accuracy differs from the logged one belong
    to another run or are incomplete: they are left out with a note.

    Raises ResultsError: a line is not a sample, or the samples do not name their data_source.
    """

    def sample(line: Any) -> dict[str, Any]:
        if not math.isfinite(line["acc"]):
            raise ValueError(f"acc is {line['acc']!r:.60}")
        return {**{key: line[key] for key in FIELDS}, **line}

    folder = run.directory / SAMPLES  # also of a run that was moved
    if not folder.is_dir():
        folder = Path(value_at(run.config, "trainer.validation_data_dir") or folder)
    file = folder / f"{step}.jsonl"
    logged = {source: value for source, metric in run.validations().items()
              if (value := run.series(metric).get(step)) is not None}  # fmt: skip
    samples: Any = pd.DataFrame(
        read_lines(file, sample, whole=True)[0] if file.exists() and logged else [], dtype=object
    )
    if samples.empty:
        return pd.DataFrame(columns=[*FIELDS, "data_source", "benchmark", PROBLEM]), []
    if len(logged) == 1:
        [samples["data_source"]] = logged
    elif "data_source" not in samples:
        raise ResultsError(f"{file}: its samples do not name their data_source, as those of rpg-verl before 0.3")
    samples["benchmark"] = samples["data_source"].map(benchmark_of)
    samples[PROBLEM] = [json.dumps(problem) for problem in zip(samples["input"], samples["gts"], strict=True)]
    notes = []
    means: Any = samples["acc"].astype(float).groupby(samples["data_source"], sort=False).mean()
    for source, mean in means.items():
        if abs(mean - logged.get(source, math.nan)) <= TOLERANCE:
            continue
        notes.append(LeftOut(
            f"{file}: its samples of {source} have accuracy {mean:.4f}, the log has {logged.get(source, math.nan):.4f}:"
            " samples of another run, or not all of them, as of failed rewards; left out"
        ))  # fmt: skip
        samples = samples.loc[samples["data_source"] != source]
    return samples, notes


def by_problem(samples: Any) -> pd.DataFrame:
    """Return the sum of the accuracies and the number of the samples, "sum" and "size", of each problem."""
    return samples["acc"].astype(float).groupby(samples[PROBLEM], sort=False).agg(["sum", "size"])


def is_binary(samples: pd.DataFrame) -> bool:
    """Return whether every sample is right or wrong; a custom reward function may return other accuracies."""
    return bool(samples["acc"].astype(float).isin([0, 1]).all())


def interval(problems: pd.DataFrame, level: float = 0.95) -> tuple[float, float]:
    """Return a percentile bootstrap interval over problems for the mean accuracy of the samples.

    Problems are drawn with replacement and keep their samples. The seed is fixed, so a table is reproducible.
    """
    correct, total = problems["sum"].to_numpy(), problems["size"].to_numpy()
    drawn = np.random.default_rng(0).integers(len(total), size=(RESAMPLES, len(total)))
    means = correct[drawn].sum(axis=1) / total[drawn].sum(axis=1)
    low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)


def pass_at(problems: pd.DataFrame, k: int) -> float:
    """Return the mean over problems of the unbiased estimate of P(one of k samples is correct)."""
    counts = problems[["size", "sum"]].to_numpy(int)
    return float(np.mean([pass_at_k(n, c, k) for n, c in counts]))


def pass_at_k(n: int, c: int, k: int) -> float:
    """1 - C(n-c, k) / C(n, k), the unbiased estimate from n >= k samples of which c are correct."""
    return 1.0 if n - c < k else 1.0 - float(np.prod(1.0 - k / np.arange(n - c + 1, n + 1)))


def pass_by_step(run: Run, k: int) -> tuple[pd.DataFrame, list[str]]:
    """Return step x benchmark: pass@k of k or more right or wrong samples a problem, and notes.

    verl logs best@k only for validations with rollout.val_kwargs.n above 1, and as a bootstrap below pass@k.
    """
    values: dict[int, dict[str, float]] = {}
    notes: list[str] = []
    for step in run.accuracies.index:
        try:
            samples, left_out = read_samples(run, step)
        except (ResultsError, OSError) as error:
            samples, left_out = pd.DataFrame(columns=["benchmark"]), [LeftOut(f"{error}; no pass@{k}")]
        notes += left_out
        for benchmark, own in samples.groupby("benchmark", sort=False):
            problems: Any = by_problem(own)
            if is_binary(own) and problems["size"].min() >= k:
                values.setdefault(step, {})[str(benchmark)] = pass_at(problems, k)
    for benchmark in {*run.accuracies} - {name for own in values.values() for name in own}:
        notes.append(LeftOut(f"no pass@{k} of {benchmark}: needs {k} saved samples of every problem, of acc 0 or 1"))
    return pd.DataFrame.from_dict(values, orient="index"), notes
