"""Two runs or groups of seeds, A and B: differences of results with intervals, settings, and answers side by side."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from rpg.diagnostics import printable
from rpg.dotted import leaves
from rpg.logged import REWARDS, is_validation
from rpg.names import ACCURACY, TRAINING_REWARD
from rpg.registry.datasets import benchmark_of
from rpg.results.measures import not_of_one_kind
from rpg.results.messages import Note, ResultsError, end_of, listed
from rpg.results.run_settings import differing, settings
from rpg.results.runs import RunLog, load_runs, other_contents
from rpg.results.samples import PROBLEM, read_samples

LEVEL = 0.95
ROUNDING = 1e-12  # of an interval without a width
LETTERS = 600  # shown characters of a problem or response


def seeds_of(run: RunLog) -> str:
    """Return the seeds in a run's configuration; runs with equal seeds are paired."""
    return str([(key, value) for key, value in leaves(run.config) if key.endswith("seed") and value is not None])


@dataclass(frozen=True)
class Side:
    """A run, or runs that differ in their seeds, sorted by seed; samples: of the first run's last validation."""

    name: str
    runs: list[RunLog]
    samples: pd.DataFrame
    notes: list[Note]


def load_side(path: Path) -> Side:
    """Load the run of a directory, or the runs of a folder of seeds.

    Raises:
        ResultsError: there is no run, or the runs differ by more than their seeds.
    """
    loaded, notes = load_runs([path], lambda metric: metric in REWARDS or is_validation(metric))
    runs = sorted(loaded, key=seeds_of)
    if unknown := [run.name for run in runs if not run.config and len(runs) > 1]:
        raise ResultsError(f"{path}: {unknown[0]} has no config.yaml, so it may be another setting; give one run")
    if several := differing([settings(run.config) for run in runs]):
        raise ResultsError(
            f"{path}: its {len(runs)} runs differ by more than their seeds ({', '.join(list(several)[:5])}); "
            "give the directories of one setting, or of one run"
        )
    steps = [int(points.index[-1]) for points in runs[0].accuracies().values()]
    samples, left_out = read_samples(runs[0], max(steps, default=0))
    notes += other_contents(str(path), runs)
    notes += [note.about(run.name) for run in runs for note in run.notes]
    notes += [note.about(runs[0].name) for note in left_out]
    return Side(runs[0].name if len(runs) == 1 else f"{path} ({len(runs)} runs)", runs, samples, notes)


def compare(first_side: Side, second_side: Side) -> tuple[list[dict[str, Any]], list[Note]]:
    """Compare the last accuracy of each common benchmark, and the mean training reward over the common steps.

    Returns differences and notes. Raises ResultsError if nothing is in common.
    """
    differences, notes = [], []
    first, second = first_side.runs, second_side.runs
    single = len(first) == len(second) == 1
    accuracies = [[run.accuracies() for run in group] for group in (first, second)]
    for benchmark in dict.fromkeys(name for side in accuracies for curves in side for name in curves):
        lacking = [run.name for runs, side in zip((first, second), accuracies, strict=True)
                   for run, curves in zip(runs, side, strict=True) if benchmark not in curves]  # fmt: skip
        if lacking:
            notes.append(Note(f"{benchmark} is not compared: {listed(lacking)} did not validate it", left_out=True))
        else:
            lasts = [[float(curves[benchmark].iloc[-1]) for curves in side] for side in accuracies]
            paired = paired_problems(first_side.samples, second_side.samples, benchmark) if single else []
            differences.append({"outcome": f"{benchmark} accuracy", **difference(first, second, lasts, paired)})
    rewards = [[run.training_reward for run in group] for group in (first, second)]
    if steps := sorted(set.intersection(*(set(series.index) for side in rewards for series in side))):
        means = [[float(series.loc[steps].mean()) for series in side] for side in rewards]
        differences.append({"outcome": TRAINING_REWARD, **difference(first, second, means)})
    runs = [*first, *second]
    if {run.path.resolve() for run in first} & {run.path.resolve() for run in second}:
        notes.append(Note("A and B share a run"))
    if not differences:
        raise ResultsError(f"{first[0].path} and {second[0].path}: no benchmark and no training reward in common")
    ends = [{int(curves[name].index[-1]) for side in accuracies for curves in side if name in curves}
            for name in accuracies[0][0]]  # fmt: skip
    if any(len(steps) > 1 for steps in [{run.last_step for run in runs}, *ends]):
        names = f"{first[0].name} and {second[0].name}"
        notes.append(Note(f"{names} are at different steps: a difference includes their training"))
    for number in (ACCURACY, TRAINING_REWARD):
        unlike = not_of_one_kind(number, [*(("A", run) for run in first), *(("B", run) for run in second)])
        notes += unlike
        for outcome in differences:
            outcome["clear"] &= not (unlike and outcome["outcome"].endswith(number))
    if single and any(outcome["interval"] for outcome in differences):
        notes.append(Note("one run per side: an interval over problems does not cover other seeds"))
    return differences, notes


def difference(
    first: list[RunLog], second: list[RunLog], values: Sequence[list[float]], problems: Sequence[float] = ()
) -> dict[str, Any]:
    """Return the means of both sides' `values` and their difference, second minus first.

    `interval` is the 95 % interval: over seeds, paired if both sides have the same, else over the differences of
    `problems`; `over` says which. None without either. `clear`: whether it excludes 0 and has a width, which that of
    equal differences has not.
    """
    means = [float(np.mean(side)) for side in values]
    interval, over = None, ""
    if min(map(len, values)) > 1:
        seeds = [[seeds_of(run) for run in group] for group in (first, second)]
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
    squares = sum(error**4 / freedom for error, freedom in errors)
    return t_quantile(0.5 + LEVEL / 2, variance**2 / squares if squares else 1.0) * math.sqrt(variance)  # Welch


def t_quantile(probability: float, freedom: float) -> float:
    """Return the quantile of Student's distribution for a probability above one half.

    mpmath is a dependency of `verified`; scipy would be a further one, of 35 MB, for `rpg compare` alone.
    """

    def above(t: Any) -> Any:
        return mpmath.betainc(freedom / 2, 0.5, 0, freedom / (freedom + t * t), regularized=True) / 2

    return float(mpmath.findroot(lambda t: above(t) - (1 - probability), 1.5))


def paired_problems(first: pd.DataFrame, second: pd.DataFrame, benchmark: str) -> list[float]:
    """Return each problem's difference in accuracy between two runs; [] if they answered different problems."""
    means = []
    for samples in (first, second):
        of_benchmark = samples.loc[[benchmark_of(source) == benchmark for source in samples["data_source"]]]
        means.append(of_benchmark.astype({"acc": float}).groupby(PROBLEM, sort=False)["acc"].mean())
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


def show(report: dict[str, Any]) -> None:
    """Print one comparison: differences (bold if the interval excludes 0), settings, answers."""
    console = Console(highlight=False, markup=False, emoji=False)
    console.print(f"A  {printable(report['first'])}\nB  {printable(report['second'])}\n")
    heads = [Column("", overflow="fold"), *(Column(head, no_wrap=True) for head in ("A", "B", "B - A"))]
    table = Table(*heads, Column("95% interval", overflow="fold"), box=None, pad_edge=False)
    for outcome in report["differences"]:
        means = [f"{outcome[side]:.4f}" for side in ("first", "second")]
        value = Text(f"{outcome['difference']:+.4f}", style="bold" if outcome["clear"] else "")
        interval = "unknown: needs several runs a side, or answers to the same problems"
        if outcome["interval"]:
            interval = "{:+.4f} to {:+.4f}, over {}".format(*outcome["interval"], outcome["over"])
        table.add_row(outcome["outcome"], *means, value, interval)
    console.print(table)
    if report["settings"]:
        console.print("\nsettings that differ")
        heads = [Column("", no_wrap=True), *(Column(head, overflow="fold") for head in ("A", "B"))]
        table = Table(*heads, box=None, pad_edge=False)
        for key, values in report["settings"].items():
            table.add_row(key, *(printable(value or "–") for value in values))
        console.print(table)
    for answer in report["answers"]:
        console.print(f"\nproblem  {short(answer['problem'])}\nanswer   {short(answer['answer_key'])}")
        console.print(f"A        {short(answer['first'])}\nB        {short(answer['second'])}")


def short(text: str) -> str:
    """Return the text in one line; of a long text only the end, which has the answer."""
    return end_of(printable(" ".join(text.split())), LETTERS)
