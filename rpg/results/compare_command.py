"""`rpg compare`: compare settings and results of two runs or groups of seeds, A and B."""

import argparse
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import rich

from rpg.diagnostics import UserError, fitted
from rpg.files.atomic import CONFIG
from rpg.results.formats import ANSI, screen
from rpg.results.runs import Run, differing, load_runs, made_apart, measured_apart, notes_of, show_notes
from rpg.results.statistics import by_problem, half_width


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg compare`."""
    parser.add_argument("first", type=Path, metavar="A", help="run directory, or folder with the runs of seeds")
    parser.add_argument("second", type=Path, metavar="B", help="the same, to compare with A: B minus A is printed")


def run(args: argparse.Namespace) -> int:
    """Print the settings that differ, and the differences, bold if their interval excludes 0."""
    first, second = side(args.first), side(args.second)
    outcomes, notes = compare(first, second)
    print(f"A  {args.first}\nB  {args.second}\n")
    for key, values in differing([first[0], second[0]]).items():
        texts = (f"  {name}  {value or 'not set'}" for name, value in zip("AB", values, strict=True))
        print(key, *fitted(texts, 5), sep="\n")
    rows = []
    for outcome in outcomes:
        means = [f"{outcome[name]:.4f}" for name in ("first", "second")]
        change = ANSI[outcome["clear"]].format(f"{outcome['difference']:+.4f}")
        low, high = outcome["interval"] or (0.0, 0.0)
        interval = f"[{low:+.4f}, {high:+.4f}] over {outcome['over']}" if outcome["interval"] else "unknown"
        rows.append([outcome["outcome"], *means, change, interval])
    print()
    rich.print(screen(pd.DataFrame(rows, columns=["", "A", "B", "B - A", "95 % interval"]), slice(1, 4)))
    show_notes([*notes_of([*first, *second]), *notes])
    return 0


def side(path: Path) -> list[Run]:
    """Load the run of a directory, or the runs of a folder of seeds, sorted by seed; without evaluations in a run.

    Raises UserError: there is no run, or the runs differ by more than their seeds.
    """
    found = sorted(load_runs([path]), key=lambda run: run.seed)
    runs = [run for run in found if not any(other.directory in run.directory.parents for other in found)]
    if len(runs) > 1 and not runs[0].config:
        raise UserError(f"{path}: settings and seeds of its {len(runs)} runs are unknown (no {CONFIG}); give one run")
    if several := [*differing(runs)]:
        raise UserError(f"{path}: its {len(runs)} runs differ in {', '.join(several[:5])}; give runs of one setting")
    return runs


def compare(first: list[Run], second: list[Run]) -> tuple[list[dict[str, Any]], list[str]]:
    """Compare the last accuracy of each common benchmark, and the mean training reward over the common steps.

    The runs of a side differ by their seeds. Returns differences (`difference`) and notes.
    """
    sides, runs, found, single = (first, second), [*first, *second], [], len(first) == len(second) == 1
    notes, unlike = made_apart(runs), measured_apart(runs, "accuracies")
    for benchmark in dict.fromkeys(name for run in runs for name in run.accuracies):
        if lacking := [run.name for run in runs if benchmark not in run.accuracies]:
            notes.append(f"{benchmark} is not compared: {', '.join(lacking)} did not validate it")
            continue
        curves = [[run.accuracies[benchmark].dropna() for run in members] for members in sides]
        if apart := len({series.index[-1] for of_side in curves for series in of_side}) > 1:
            notes.append(f"{benchmark} does not compare: the last validations are at different steps")
        lasts = [[float(series.iloc[-1]) for series in of_side] for of_side in curves]
        problems = [by_problem(members[0].samples(series.index[-1], benchmark))["mean"]
                    for members, (series, *_) in zip(sides, curves, strict=True)] if single else None  # fmt: skip
        outcome = {"outcome": f"{benchmark} accuracy", **difference(sides, lasts, problems)}
        found.append(outcome | ({"clear": False} if apart or unlike else {}))
    notes += unlike
    rewards = [[run.training_reward for run in members] for members in sides]
    if steps := sorted(set.intersection(*(set(series.index) for of_side in rewards for series in of_side))):
        means = [[float(series.loc[steps].mean()) for series in of_side] for of_side in rewards]
        unlike = measured_apart(runs, "training rewards")
        notes += [f"the training reward is the mean over steps {steps[0]} to {steps[-1]}", *unlike]
        outcome = {"outcome": "training reward", **difference(sides, means)}
        found.append(outcome | ({"clear": False} if unlike else {}))
    if any(len({run.seed for run in members}) < len(members) for members in sides):
        notes.append("runs of one seed are averaged, and the interval is not over seeds")
    return found, notes


def difference(sides: Sequence[list[Run]], values: list[list[float]], problems: list | None = None) -> dict[str, Any]:
    """Return the means of both sides' values over their seeds and the difference, second minus first.

    `interval` is the 95 % interval over seeds, or over the problems of two single runs; paired (Student) if both sides
    have the same, else Welch's; `over` says which. None for a single one, for other problems, or for equal differences,
    which tell no noise. `clear`: whether it excludes 0.
    """
    seeds: list[Any] = [pd.Series(data, [run.seed for run in runs]) for runs, data in zip(sides, values, strict=True)]
    first, second = problems or seeds
    paired = first.index.is_unique and sorted(first.index) == sorted(second.index)
    means, half = [float(of_side.mean()) for of_side in seeds], math.inf
    change = means[1] - means[0]
    if min(len(first), len(second)) > 1 and (paired or not problems):
        samples = [second - first] if paired else [first, second]
        half = half_width([(float(sample.sem()), len(sample) - 1) for sample in samples])
    interval = (change - half, change + half) if half < math.inf else None
    over = "problems" if problems else "paired seeds" if paired else "seeds"
    summary = {"first": means[0], "second": means[1], "difference": change}
    return {**summary, "interval": interval, "over": over, "clear": abs(change) > half}
