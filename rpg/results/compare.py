"""Two runs, or two groups of seeds: differences with intervals, settings that differ, answers side by side."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pandas as pd

from rpg.checks.finding import leaves
from rpg.results.runs import RunLog, load_runs
from rpg.results.samples import read_samples
from rpg.results.settings import BENCHMARK_OF, ResultsError, setting, settings

TRAINING_REWARD = "training reward"  # mean over the steps that both sides have
REWARD = "critic/score/mean"
LEVEL = 0.95
PROBLEM = ["input", "gts"]  # what tells problems apart in verl's samples


@dataclass(frozen=True)
class Difference:
    """One outcome of two groups.

    Attributes:
        first, second: means of the groups. difference: second less first.
        interval: of the difference, 95 %; None where there is nothing to estimate its error from.
        over: what the interval is over: "seeds, paired", "seeds" or "problems, paired"; "" without one.
    """

    outcome: str
    first: float
    second: float
    difference: float
    interval: tuple[float, float] | None
    over: str

    @property
    def clear(self) -> bool:
        """Whether the interval leaves out 0."""
        return self.interval is not None and not self.interval[0] <= 0 <= self.interval[1]


@dataclass
class Group:
    """The runs of one side, which differ by their seeds alone."""

    path: Path
    runs: list[RunLog]

    @property
    def name(self) -> str:
        """The run's name; of several runs the folder's."""
        return self.runs[0].name if len(self.runs) == 1 else f"{self.path} ({len(self.runs)} runs)"

    def by_seed(self) -> dict[str, RunLog] | None:
        """Seeds of a run -> run; None where two runs have the same seeds, or none are known."""
        found = {str(seeds): run for run in self.runs if (seeds := seeds_of(run))}
        return found if len(found) == len(self.runs) else None


def load_group(path: Path, notes: list[str]) -> Group:
    """The runs of a directory, or of a folder of seeds.

    Raises:
        ResultsError: no run there, or runs that differ by more than their seeds.
    """
    runs = load_runs([path], notes)
    kinds = {tuple(sorted(settings(run.config).items())) for run in runs}
    if len(kinds) > 1:
        differing = sorted({key for one in kinds for key, _ in set(one) ^ set(next(iter(kinds)))})
        raise ResultsError(
            f"{path}: its {len(runs)} runs differ by more than their seeds ({', '.join(differing[:5])}); "
            "give the directories of one setting, or of one run"
        )
    return Group(path, runs)


def seeds_of(run: RunLog) -> dict[str, Any]:
    """Dotted key -> value of the seeds in a run's configuration."""
    return {key: value for key, value in leaves(run.config) if key.endswith("seed") and value is not None}


def compare(first: Group, second: Group) -> list[Difference]:
    """The last accuracy of each benchmark that both sides have, and the mean training reward of their common steps."""
    accuracies = [[run.accuracies() for run in group.runs] for group in (first, second)]
    shared = [name for name in accuracies[0][0] if all(name in one for side in accuracies for one in side)]
    differences = []
    for name in shared:
        lasts = [[float(one[name].iloc[-1]) for one in side] for side in accuracies]
        differences.append(difference(f"{name} accuracy", first, second, lasts))
    rewards = [[run.series(REWARD) for run in group.runs] for group in (first, second)]
    steps = set.intersection(*(set(series.index) for side in rewards for series in side))
    if steps:
        means = [[float(series.loc[sorted(steps)].mean()) for series in side] for side in rewards]
        differences.append(difference(TRAINING_REWARD, first, second, means))
    return differences


def difference(outcome: str, first: Group, second: Group, values: Sequence[Sequence[float]]) -> Difference:
    """values: of the runs of each side. The interval is over seeds; with one run a side over problems, if it can be."""
    means = [float(np.mean(side)) for side in values]
    interval, over = None, ""
    if min(map(len, values)) > 1:
        interval, over = _over_seeds(first, second, values)
    elif max(map(len, values)) == 1 and outcome != TRAINING_REWARD:
        name = outcome.removesuffix(" accuracy")
        pairs = paired_problems(first.runs[0], second.runs[0], name)
        if len(pairs) > 1:
            interval, over = t_interval(pairs), "problems, paired"
    return Difference(outcome, means[0], means[1], means[1] - means[0], interval, over)


def _over_seeds(first: Group, second: Group, values: Sequence[Sequence[float]]) -> tuple[tuple[float, float], str]:
    """Paired where both sides have the same seeds, Welch's interval where not."""
    seeds = first.by_seed(), second.by_seed()
    if seeds[0] and seeds[1] and set(seeds[0]) == set(seeds[1]):
        ordered = [
            [value for _, value in sorted(zip((str(seeds_of(run)) for run in group.runs), side, strict=True))]
            for group, side in zip((first, second), values, strict=True)
        ]
        return t_interval([second - first for first, second in zip(*ordered, strict=True)]), "seeds, paired"
    errors = [float(np.var(side, ddof=1)) / len(side) for side in values]
    squares = sum(error**2 / (len(side) - 1) for error, side in zip(errors, values, strict=True))
    freedom = sum(errors) ** 2 / squares if squares else 1.0
    middle = float(np.mean(values[1]) - np.mean(values[0]))
    half = t_quantile(0.5 + LEVEL / 2, freedom) * math.sqrt(sum(errors))
    return (middle - half, middle + half), "seeds"


def t_interval(differences: Sequence[float]) -> tuple[float, float]:
    """Student's interval of the mean of paired differences."""
    middle, error = np.mean(differences), np.std(differences, ddof=1) / math.sqrt(len(differences))
    half = t_quantile(0.5 + LEVEL / 2, len(differences) - 1) * error
    return float(middle - half), float(middle + half)


def t_quantile(probability: float, freedom: float) -> float:
    """Of Student's distribution, for a probability above one half."""

    def above(t: Any) -> Any:
        return mpmath.betainc(freedom / 2, 0.5, 0, freedom / (freedom + t * t), regularized=True) / 2

    return float(mpmath.findroot(lambda t: above(t) - (1 - probability), 1.5))


def last_samples(run: RunLog) -> pd.DataFrame:
    """A line for each sample of the last validation, as `read_samples`; empty where the run wrote none."""
    steps = [int(points.index[-1]) for points in run.accuracies().values()]
    samples = read_samples(run, max(steps), whole=True) if steps else None
    return pd.DataFrame(columns=[*PROBLEM, "output", "acc"]) if samples is None else samples


def paired_problems(first: RunLog, second: RunLog, benchmark: str) -> list[float]:
    """Difference in accuracy of each problem of the last validation; [] where the runs answered different problems."""
    means = []
    for run in (first, second):
        samples = last_samples(run)
        if len(samples):
            samples = samples.loc[samples["data_source"].map(lambda name: BENCHMARK_OF.get(name, name)) == benchmark]
        means.append(samples.astype({"acc": float}).groupby(PROBLEM, sort=False)["acc"].mean())
    return (means[1] - means[0]).tolist() if set(means[0].index) == set(means[1].index) else []


def side_by_side(first: RunLog, second: RunLog, count: int) -> list[tuple[str, str, str, str]]:
    """(problem, answer key, response of the first run, of the second) of problems that one of them alone solves."""
    one, other = (last_samples(run).drop_duplicates(PROBLEM) for run in (first, second))
    both = one.merge(other, on=PROBLEM, suffixes=("_first", "_second"))
    differ = both.loc[both["acc_first"] != both["acc_second"], [*PROBLEM, "output_first", "output_second"]]
    return [(str(row[0]), str(row[1]), str(row[2]), str(row[3])) for row in differ.head(count).to_numpy().tolist()]


def differing_settings(groups: Sequence[Group]) -> dict[str, list[str]]:
    """Dotted key -> its value on each side, of the settings that differ; seeds are none."""
    all_settings = [settings(group.runs[0].config) for group in groups]
    keys = sorted({key for one in all_settings for key in one})
    rows = {key: [one.get(key, "–") for one in all_settings] for key in keys}
    return {key: values for key, values in rows.items() if len(set(values)) > 1}


def planned_alike(first: Group, second: Group) -> bool:
    """Whether all runs are at the same step: else a difference is also one of training."""
    return len({run.last_step for group in (first, second) for run in group.runs}) == 1


def filters_groups(group: Group) -> bool:
    """Whether its training reward is that of kept groups alone."""
    return bool(setting(group.runs[0].config, "algorithm.filter_groups.enable"))
