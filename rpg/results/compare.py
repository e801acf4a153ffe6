"""Two runs, or two groups of seeds: differences with intervals, settings that differ, answers side by side."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pandas as pd

from rpg.results.config import ResultsError, flatten, setting, settings
from rpg.results.runs import RunLog, load_runs
from rpg.results.samples import check_agreement, sample_file, sample_lines

TRAINING_REWARD = "training reward"  # mean over the steps that both sides have
REWARD = "critic/score/mean"
LEVEL = 0.95


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
    return {key: value for key, value in flatten(run.config).items() if key.endswith("seed") and value is not None}


def compare(first: Group, second: Group) -> list[Difference]:
    """The last accuracy of each benchmark that both sides have, and the mean training reward of their common steps."""
    accuracies = [[run.accuracies() for run in group.runs] for group in (first, second)]
    shared = [name for name in accuracies[0][0] if all(name in one for side in accuracies for one in side)]
    differences = [
        difference(f"{name} accuracy", first, second, [[float(one[name].iloc[-1]) for one in side] for side in accuracies])
        for name in shared
    ]  # fmt: skip
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
            interval, over = t_interval(pairs["second"] - pairs["first"]), "problems, paired"
    return Difference(outcome, means[0], means[1], means[1] - means[0], interval, over)


def _over_seeds(first: Group, second: Group, values: Sequence[Sequence[float]]) -> tuple[tuple[float, float], str]:
    """Paired where both sides have the same seeds, Welch's interval where not."""
    seeds = first.by_seed(), second.by_seed()
    if seeds[0] and seeds[1] and set(seeds[0]) == set(seeds[1]):
        ordered = [
            [value for _, value in sorted(zip((str(seeds_of(run)) for run in group.runs), side, strict=True))]
            for group, side in zip((first, second), values, strict=True)
        ]
        return t_interval(pd.Series(ordered[1]) - pd.Series(ordered[0])), "seeds, paired"
    errors = [np.var(side, ddof=1) / len(side) for side in values]
    freedom = (
        sum(errors) ** 2 / sum(e**2 / (len(v) - 1) for e, v in zip(errors, values, strict=True)) if any(errors) else 1
    )
    middle, half = (
        np.mean(values[1]) - np.mean(values[0]),
        t_quantile(0.5 + LEVEL / 2, freedom) * math.sqrt(sum(errors)),
    )
    return (float(middle - half), float(middle + half)), "seeds"


def t_interval(differences: pd.Series) -> tuple[float, float]:
    """Student's interval of the mean of paired differences."""
    half = t_quantile(0.5 + LEVEL / 2, len(differences) - 1) * float(differences.sem())
    return float(differences.mean()) - half, float(differences.mean()) + half


def t_quantile(probability: float, freedom: float) -> float:
    """Of Student's distribution, for a probability above one half."""

    def above(t: mpmath.mpf) -> mpmath.mpf:
        return mpmath.betainc(freedom / 2, 0.5, 0, freedom / (freedom + t * t), regularized=True) / 2

    return float(mpmath.findroot(lambda t: above(t) - (1 - probability), 1.5))


def last_answers(run: RunLog) -> pd.DataFrame:
    """Samples of the last validation: columns problem, answer_key, response, acc; empty where the run wrote none."""
    ends = [int(points.index[-1]) for points in run.accuracies().values()]
    file = sample_file(run, max(ends)) if ends else None
    columns = {"problem": "input", "answer_key": "gts", "response": "output", "acc": "acc"}
    if file is None:
        return pd.DataFrame(columns=pd.Index(columns))
    samples = [{name: one[key] for name, key in columns.items()} for one in sample_lines(file, ["acc", "output"])]
    answers = pd.DataFrame(samples).astype({"acc": float, "answer_key": str})
    accuracies = run.accuracies()
    if len(accuracies) == 1:
        (name, points), = accuracies.items()  # fmt: skip
        if not check_agreement(run, file, name, list(answers["acc"]), points, max(ends)):
            return answers.iloc[:0]
    return answers


def paired_problems(first: RunLog, second: RunLog, benchmark: str) -> pd.DataFrame:
    """Accuracy of each problem of the last validations (columns first, second); empty where they do not pair.

    Only for runs that validate on one benchmark: samples on disk do not say which one they are of.
    """
    if any(list(run.accuracies()) != [benchmark] for run in (first, second)):
        return pd.DataFrame()
    keys = ["problem", "answer_key"]
    means = [last_answers(run).groupby(keys)["acc"].mean() for run in (first, second)]
    pairs = pd.concat(means, axis=1, join="inner", keys=["first", "second"])
    return pairs if len(pairs) == len(means[0]) == len(means[1]) else pairs.iloc[:0]


def side_by_side(first: RunLog, second: RunLog, count: int) -> list[tuple[str, str, str, str]]:
    """(problem, answer key, response of the first run, of the second) of problems that one of them alone solves."""
    one, other = (last_answers(run).drop_duplicates(["problem", "answer_key"]) for run in (first, second))
    both = one.merge(other, on=["problem", "answer_key"], suffixes=("_first", "_second"))
    differ = both[both["acc_first"] != both["acc_second"]].head(count)
    return list(
        differ[["problem", "answer_key", "response_first", "response_second"]].itertuples(index=False, name=None)
    )


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
