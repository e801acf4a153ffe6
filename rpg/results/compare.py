"""Two runs, or two groups of seeds: differences with intervals, settings that differ, answers side by side."""

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
from rpg.results.runs import RunLog, load_runs
from rpg.results.samples import read_samples

TRAINING_REWARD = "training reward"  # mean over the steps that both sides have
REWARD = "critic/score/mean"
LEVEL = 0.95
PROBLEM = ["input", "gts"]  # what tells problems apart in verl's samples

Interval = tuple[float, float]


@dataclass(frozen=True)
class Difference:
    """One outcome of two groups.

    Attributes:
        first, second: means of the groups. difference: second less first.
        interval: of the difference, 95 %; None where there is nothing to estimate its error from.
        over: what the interval is over: "seeds, paired", "seeds" or "problems, paired"; "" without one.
        clear: whether the interval leaves out 0.
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

    @property
    def seeds(self) -> list[str]:
        """The seeds of each run."""
        return [seeds_of(run) for run in self.runs]


def seeds_of(run: RunLog) -> str:
    """The seeds in a run's configuration; runs with the same ones are paired."""
    return str([(key, value) for key, value in leaves(run.config) if key.endswith("seed") and value is not None])


def load_group(path: Path, notes: list[str]) -> Group:
    """The runs of a directory, or of a folder of seeds.

    Raises:
        ResultsError: no run there, or runs that differ by more than their seeds.
    """
    runs = sorted(load_runs([path], notes), key=seeds_of)
    if several := differing([settings(run.config) for run in runs]):
        raise ResultsError(
            f"{path}: its {len(runs)} runs differ by more than their seeds ({', '.join(list(several)[:5])}); "
            "give the directories of one setting, or of one run"
        )
    return Group(path, runs)


def compare(first: Group, second: Group) -> list[Difference]:
    """The last accuracy of each benchmark that both sides have, and the mean training reward of their common steps."""
    accuracies = [[run.accuracies() for run in group.runs] for group in (first, second)]
    shared = [name for name in accuracies[0][0] if all(name in one for side in accuracies for one in side)]
    differences = []
    for name in shared:
        lasts = [[float(one[name].iloc[-1]) for one in side] for side in accuracies]
        pairs = []
        if len(first.runs) == len(second.runs) == 1:
            pairs = paired_problems(first.runs[0], second.runs[0], name)
        differences.append(difference(f"{name} accuracy", first, second, lasts, pairs))
    rewards = [[run.series(REWARD) for run in group.runs] for group in (first, second)]
    if steps := sorted(set.intersection(*(set(series.index) for side in rewards for series in side))):
        means = [[float(series.loc[steps].mean()) for series in side] for side in rewards]
        differences.append(difference(TRAINING_REWARD, first, second, means))
    return differences


def difference(
    outcome: str, first: Group, second: Group, values: Sequence[list[float]], problems: Sequence[float] = ()
) -> Difference:
    """values: of the runs of each side. The interval is over seeds, else over the differences of `problems`."""
    means = [float(np.mean(side)) for side in values]
    interval, over = None, ""
    if min(map(len, values)) > 1 and first.seeds == second.seeds and len(set(first.seeds)) == len(first.seeds):
        interval, over = t_interval([b - a for a, b in zip(*values, strict=True)]), "seeds, paired"
    elif min(map(len, values)) > 1:
        interval, over = welch_interval(*values), "seeds"
    elif len(problems) > 1:
        interval, over = t_interval(problems), "problems, paired"
    clear = interval is not None and not interval[0] <= 0 <= interval[1]
    return Difference(outcome, means[0], means[1], means[1] - means[0], interval, over, clear)


def t_interval(differences: Sequence[float]) -> Interval:
    """Student's interval of the mean of paired differences."""
    error = float(np.std(differences, ddof=1)) / math.sqrt(len(differences))
    return _around(float(np.mean(differences)), error, len(differences) - 1)


def welch_interval(first: Sequence[float], second: Sequence[float]) -> Interval:
    """Of the difference of two means whose samples are not paired."""
    errors = [float(np.var(side, ddof=1)) / len(side) for side in (first, second)]
    squares = sum(error**2 / (len(side) - 1) for error, side in zip(errors, (first, second), strict=True))
    freedom = sum(errors) ** 2 / squares if squares else 1.0
    return _around(float(np.mean(second) - np.mean(first)), math.sqrt(sum(errors)), freedom)


def _around(middle: float, error: float, freedom: float) -> Interval:
    half = t_quantile(0.5 + LEVEL / 2, freedom) * error
    return middle - half, middle + half


def t_quantile(probability: float, freedom: float) -> float:
    """Of Student's distribution, for a probability above one half."""

    def above(t: Any) -> Any:
        return mpmath.betainc(freedom / 2, 0.5, 0, freedom / (freedom + t * t), regularized=True) / 2

    return float(mpmath.findroot(lambda t: above(t) - (1 - probability), 1.5))


def last_samples(run: RunLog) -> pd.DataFrame:
    """A line for each sample of the last validation, as `read_samples`; empty where the run wrote none."""
    steps = [int(points.index[-1]) for points in run.accuracies().values()]
    samples = read_samples(run, max(steps), whole=True) if steps else None
    return pd.DataFrame(columns=[*PROBLEM, "output", "acc", "data_source"]) if samples is None else samples


def paired_problems(first: RunLog, second: RunLog, benchmark: str) -> list[float]:
    """Difference in accuracy of each problem of the last validation; [] where the runs answered different problems."""
    means = []
    for samples in map(last_samples, (first, second)):
        own = samples.loc[[BENCHMARK_OF.get(name, name) == benchmark for name in samples["data_source"]]]
        means.append(own.astype({"acc": float}).groupby(PROBLEM, sort=False)["acc"].mean())
    return (means[1] - means[0]).tolist() if set(means[0].index) == set(means[1].index) else []


def side_by_side(first: RunLog, second: RunLog, count: int) -> list[dict[str, str]]:
    """Problems that one of the runs alone solves, with the answer key and the response of each."""
    one, other = (last_samples(run).drop_duplicates(PROBLEM) for run in (first, second))
    both = one.merge(other, on=PROBLEM, suffixes=("_first", "_second"))
    differ = both.loc[both["acc_first"] != both["acc_second"], [*PROBLEM, "output_first", "output_second"]]
    names = ("problem", "answer_key", "first", "second")
    return [dict(zip(names, map(str, row), strict=True)) for row in differ.head(count).to_numpy().tolist()]


def differing_settings(groups: Sequence[Group]) -> dict[str, list[str]]:
    """Dotted key -> its value on each side, of the settings that differ; seeds are none."""
    rows = differing([settings(group.runs[0].config) for group in groups])
    return {key: [value or "–" for value in row] for key, row in rows.items()}
