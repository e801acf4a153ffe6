"""Two runs or groups of seeds, A and B: differences of results with intervals, and Student's intervals."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pandas as pd

from rpg.config.record import CONTENTS
from rpg.logged import REWARDS, is_validation
from rpg.results.messages import LeftOut, ResultsError, about
from rpg.results.runs import Run, load_runs, notes_of
from rpg.results.samples import PROBLEM, read_samples
from rpg.results.settings import differing, settings

LEVEL = 0.95
ROUNDING = 1e-12  # of an interval without a width


@dataclass(frozen=True)
class Side:
    """A run, or runs that differ in their seeds, sorted by seed; samples: of the first run's last validation."""

    name: str
    runs: list[Run]
    samples: pd.DataFrame
    notes: list[str]


def load_side(path: Path) -> Side:
    """Load the run of a directory, or the runs of a folder of seeds.

    Raises ResultsError: there is no run, or the runs differ by more than their seeds.
    """
    runs, notes = load_runs([path], lambda metric: metric in REWARDS or is_validation(metric))
    runs.sort(key=lambda run: run.seed)
    if len(runs) > 1 and not all(run.config for run in runs):
        raise ResultsError(f"{path}: a run without config.yaml may be another setting; give one run")
    if several := differing([settings(run.config) for run in runs]):
        keys = ", ".join(list(several)[:5])
        raise ResultsError(f"{path}: its {len(runs)} runs differ in {keys}; give the runs of one setting, or one run")
    samples, left_out = read_samples(runs[0], max(runs[0].accuracies.index, default=0))
    notes += [*other_contents(str(path), runs), *notes_of(runs), *(about(runs[0].name, note) for note in left_out)]
    return Side(runs[0].name if len(runs) == 1 else f"{path} ({len(runs)} runs)", runs, samples, notes)


def other_contents(label: str, runs: Sequence[Run]) -> list[str]:
    """Return a note if runs that count as seeds of one setting had files of other content."""
    known = [contents for run in runs if (contents := run.environment.get(CONTENTS))]
    keys = sorted({key for contents in known for key in contents if contents[key] != known[0].get(key)})
    return [f"{label}: its runs differ in {', '.join(keys)}, not in their seeds alone"] if keys else []


def compare(first: Side, second: Side, comparable: bool) -> tuple[list[dict[str, Any]], list[str]]:
    """Compare the last accuracy of each common benchmark, and the mean training reward over the common steps.

    comparable: whether accuracies are measured alike; if not, no difference of theirs is clear.
    Returns differences and notes. Raises ResultsError if nothing is in common.
    """
    differences, notes, sides = [], [], (first.runs, second.runs)
    single = len(first.runs) == len(second.runs) == 1
    ends: list[set[Any]] = [{run.last_step for runs in sides for run in runs}]
    for benchmark in dict.fromkeys(name for runs in sides for run in runs for name in run.accuracies):
        lacking = [run.name for runs in sides for run in runs if benchmark not in run.accuracies]
        if lacking:
            notes.append(LeftOut(f"{benchmark} is not compared: {', '.join(lacking)} did not validate it"))
            continue
        ends.append({run.accuracies[benchmark].last_valid_index() for runs in sides for run in runs})
        lasts = [[float(run.accuracies[benchmark].dropna().iloc[-1]) for run in runs] for runs in sides]
        paired = paired_problems(first.samples, second.samples, benchmark) if single else []
        differences.append({"outcome": f"{benchmark} accuracy", **difference(*sides, lasts, paired)})
        differences[-1]["clear"] &= comparable
    rewards = [[run.training_reward for run in runs] for runs in sides]
    if steps := sorted(set.intersection(*(set(series.index) for side in rewards for series in side))):
        means = [[float(series.loc[steps].mean()) for series in side] for side in rewards]
        differences.append({"outcome": "training reward", **difference(*sides, means)})
    if not differences:
        raise ResultsError(f"{first.name} and {second.name}: no benchmark and no training reward in common")
    if any(len(steps) > 1 for steps in ends):
        notes.append(f"{first.name} and {second.name} are at different steps: a difference includes their training")
    if single and any(outcome["interval"] for outcome in differences):
        notes.append("one run per side: an interval over problems does not cover other seeds")
    return differences, notes


def difference(
    first: list[Run], second: list[Run], values: Sequence[list[float]], problems: Sequence[float] = ()
) -> dict[str, Any]:
    """Return the means of both sides' `values` and their difference, second minus first.

    `interval` is the 95 % interval: over seeds, paired if both sides have the same, else over the differences of
    `problems`; `over` says which. None without either. `clear`: whether it excludes 0 and has a width, which that of
    equal differences has not.
    """
    means = [float(np.mean(side)) for side in values]
    interval, over = None, ""
    if min(map(len, values)) > 1:
        seeds = [[run.seed for run in runs] for runs in (first, second)]
        if seeds[0] == seeds[1] and len(set(seeds[0])) == len(seeds[0]):
            interval, over = t_interval([b - a for a, b in zip(*values, strict=True)]), "seeds, paired"
        else:
            interval, over = t_interval(*values), "seeds"
    elif len(problems) > 1:
        interval, over = t_interval(problems), "problems, paired"
    clear = interval is not None and interval[1] - interval[0] > ROUNDING and not interval[0] <= 0 <= interval[1]
    summary = {"first": means[0], "second": means[1], "difference": means[1] - means[0]}
    return {**summary, "interval": interval, "over": over, "clear": clear}


def t_interval(*samples: Sequence[float]) -> tuple[float, float]:
    """Return the interval of one sample's mean (Student), or of the second's minus the first's (Welch)."""
    half = half_width([(float(np.std(sample, ddof=1)) / math.sqrt(len(sample)), len(sample) - 1) for sample in samples])
    middle = float(np.mean(samples[-1])) - (float(np.mean(samples[0])) if len(samples) > 1 else 0.0)
    return middle - half, middle + half


def half_width(errors: Sequence[tuple[float, float]]) -> float:
    """Return half the interval of a sum of independent means, by the standard error and degrees of freedom of each."""
    variance = sum(error**2 for error, _ in errors)
    if not 0 < variance < math.inf:
        return variance
    freedom = variance**2 / sum(error**4 / freedom for error, freedom in errors)  # Welch
    return t_quantile(0.5 + LEVEL / 2, freedom) * math.sqrt(variance)


def t_quantile(probability: float, freedom: float) -> float:
    """Return the quantile of Student's distribution for a probability above one half.

    mpmath is a dependency of `verified`; scipy would be a further one, of 35 MB, for `rpg compare` alone.
    """

    def above(t: Any) -> Any:
        return mpmath.betainc(freedom / 2, 0.5, 0, freedom / (freedom + t * t), regularized=True) / 2

    return float(mpmath.findroot(lambda t: above(t) - (1 - probability), 1.5))


def paired_problems(first: pd.DataFrame, second: pd.DataFrame, benchmark: str) -> list[float]:
    """Return each problem's difference in accuracy between two runs; [] if they answered different problems."""
    means: list[Any] = []
    for samples in (first, second):
        own = samples[samples["benchmark"] == benchmark].astype({"acc": float})
        means.append(own.groupby(PROBLEM, sort=False)["acc"].mean())
    return (means[1] - means[0]).tolist() if set(means[0].index) == set(means[1].index) else []


def side_by_side(first: pd.DataFrame, second: pd.DataFrame, count: int) -> list[dict[str, str]]:
    """Return up to `count` problems that only one of two runs ever solves, with answer key and best answers."""
    best = [
        samples.astype({"acc": float}).sort_values("acc", ascending=False).drop_duplicates(PROBLEM).sort_index()
        for samples in (first, second)
    ]
    both = best[0].merge(best[1], on=PROBLEM, suffixes=("_first", "_second"))
    differ = both.loc[(both["acc_first"] > 0) != (both["acc_second"] > 0)]
    differ = differ[["input_first", "gts_first", "output_first", "output_second"]]
    differ.columns = ["problem", "answer_key", "first", "second"]
    return differ.head(count).astype(str).to_dict("records")
