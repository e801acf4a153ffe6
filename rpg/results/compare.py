"""Two runs, or two groups of seeds: differences with intervals, differing settings, answers side by side."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pandas as pd

from rpg.checks.check import leaves
from rpg.results.run_settings import BENCHMARK_OF, ResultsError, differing, settings
from rpg.results.runs import RunLog, is_accuracy, load_runs
from rpg.results.samples import read_samples

TRAINING_REWARD = "training reward"  # mean over the steps that both sides have
REWARD = "critic/score/mean"
LEVEL = 0.95
PROBLEM = ["input", "gts"]  # the columns of verl's samples that identify a problem

Interval = tuple[float, float]


@dataclass(frozen=True)
class Difference:
    """One outcome of two groups.

    Attributes:
        first, second: means of the groups. difference: second less first.
        interval: 95 % interval of the difference; None if its error cannot be estimated.
        over: what the interval is over: "seeds, paired", "seeds" or "problems, paired"; "" without one.
        clear: whether the interval excludes 0.
    """

    outcome: str
    first: float
    second: float
    difference: float
    interval: Interval | None
    over: str
    clear: bool


@dataclass
class Group:
    """The runs of one side, which differ by their seeds alone; in the order of their seeds."""

    path: Path
    runs: list[RunLog]

    @property
    def name(self) -> str:
        """The run's name; of several runs the folder's."""
        return self.runs[0].name if len(self.runs) == 1 else f"{self.path} ({len(self.runs)} runs)"


def seeds_of(run: RunLog) -> str:
    """The seeds in a run's configuration; runs with the same ones are paired."""
    return str([(key, value) for key, value in leaves(run.config) if key.endswith("seed") and value is not None])


def load_group(path: Path, notes: list[str]) -> Group:
    """Load the run of a directory, or the runs of a folder of seeds.

    Raises:
        ResultsError: there is no run, or the runs differ by more than their seeds.
    """
    runs = sorted(load_runs([path], notes, lambda name: name == REWARD or is_accuracy(name)), key=seeds_of)
    if several := differing([settings(run.config) for run in runs]):
        raise ResultsError(
            f"{path}: its {len(runs)} runs differ by more than their seeds ({', '.join(list(several)[:5])}); "
            "give the directories of one setting, or of one run"
        )
    return Group(path, runs)


def compare(first: Group, second: Group) -> list[Difference]:
    """Compare the last accuracy of each common benchmark, and the mean training reward over the common steps."""
    accuracies = [[run.accuracies() for run in group.runs] for group in (first, second)]
    differences = []
    for name in accuracies[0][0]:
        if all(name in own for side in accuracies for own in side):
            lasts = [[float(own[name].iloc[-1]) for own in side] for side in accuracies]
            paired = paired_problems(first, second, name)
            differences.append(difference(f"{name} accuracy", first, second, lasts, paired))
    rewards = [[run.series(REWARD) for run in group.runs] for group in (first, second)]
    if steps := sorted(set.intersection(*(set(series.index) for side in rewards for series in side))):
        means = [[float(series.loc[steps].mean()) for series in side] for side in rewards]
        differences.append(difference(TRAINING_REWARD, first, second, means))
    return differences


def difference(
    outcome: str, first: Group, second: Group, values: Sequence[list[float]], problems: Sequence[float] = ()
) -> Difference:
    """The difference of the means of `values`, which are those of the runs of each side.

    The interval is over seeds, paired if both sides have the same ones, else over the differences of `problems`.
    """
    means = [float(np.mean(side)) for side in values]
    interval, over = None, ""
    if min(map(len, values)) > 1:
        seeds = [[seeds_of(run) for run in group.runs] for group in (first, second)]
        if seeds[0] == seeds[1] and len(set(seeds[0])) == len(seeds[0]):
            interval, over = t_interval([b - a for a, b in zip(*values, strict=True)]), "seeds, paired"
        else:
            interval, over = welch_interval(*values), "seeds"
    elif len(problems) > 1:
        interval, over = t_interval(problems), "problems, paired"
    clear = interval is not None and not interval[0] <= 0 <= interval[1]
    return Difference(outcome, means[0], means[1], means[1] - means[0], interval, over, clear)


def t_interval(differences: Sequence[float]) -> Interval:
    """Student's interval of the mean of paired differences."""
    error = float(np.std(differences, ddof=1)) / math.sqrt(len(differences))
    return _interval(float(np.mean(differences)), error, len(differences) - 1)


def welch_interval(first: Sequence[float], second: Sequence[float]) -> Interval:
    """Welch's interval of the difference of two means that are not paired."""
    errors = [float(np.var(side, ddof=1)) / len(side) for side in (first, second)]
    squares = sum(error**2 / (len(side) - 1) for error, side in zip(errors, (first, second), strict=True))
    freedom = sum(errors) ** 2 / squares if squares else 1.0
    return _interval(float(np.mean(second) - np.mean(first)), math.sqrt(sum(errors)), freedom)


def _interval(middle: float, error: float, freedom: float) -> Interval:
    half = t_quantile(0.5 + LEVEL / 2, freedom) * error
    return middle - half, middle + half


def t_quantile(probability: float, freedom: float) -> float:
    """The quantile of Student's distribution, for a probability above one half."""

    def above(t: Any) -> Any:
        return mpmath.betainc(freedom / 2, 0.5, 0, freedom / (freedom + t * t), regularized=True) / 2

    return float(mpmath.findroot(lambda t: above(t) - (1 - probability), 1.5))


def last_samples(run: RunLog) -> pd.DataFrame:
    """The samples of the last validation, as `read_samples`; empty if the run wrote none."""
    steps = [int(points.index[-1]) for points in run.accuracies().values()]
    samples = read_samples(run, max(steps), whole=True) if steps else None
    return pd.DataFrame(columns=[*PROBLEM, "output", "acc", "data_source"]) if samples is None else samples


def paired_problems(first: Group, second: Group, benchmark: str) -> list[float]:
    """The difference in accuracy of each problem of the last validation; [] if there is more than a run a side.

    Also [] if the runs answered different problems.
    """
    if not len(first.runs) == len(second.runs) == 1:
        return []
    means = []
    for samples in (last_samples(first.runs[0]), last_samples(second.runs[0])):
        own = samples.loc[[BENCHMARK_OF.get(name, name) == benchmark for name in samples["data_source"]]]
        means.append(own.astype({"acc": float}).groupby(PROBLEM, sort=False)["acc"].mean())
    return (means[1] - means[0]).tolist() if set(means[0].index) == set(means[1].index) else []


def side_by_side(first: RunLog, second: RunLog, count: int) -> list[dict[str, str]]:
    """Up to `count` problems that only one of the runs solves, with the answer key and the response of each run."""
    one, other = (last_samples(run).drop_duplicates(PROBLEM) for run in (first, second))
    both = one.merge(other, on=PROBLEM, suffixes=("_first", "_second"))
    differ = both.loc[both["acc_first"] != both["acc_second"], [*PROBLEM, "output_first", "output_second"]]
    names = ("problem", "answer_key", "first", "second")
    return [dict(zip(names, map(str, row), strict=True)) for row in differ.head(count).to_numpy().tolist()]


def differing_settings(groups: Sequence[Group]) -> dict[str, list[str]]:
    """Dotted key -> its value on each side, of the settings that differ; seeds do not count."""
    rows = differing([settings(group.runs[0].config) for group in groups])
    return {key: [value or "–" for value in row] for key, row in rows.items()}
