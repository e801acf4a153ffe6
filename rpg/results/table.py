"""Tables in the paper's form, Last and Best of Mean@k by method and benchmark, and the paper's own tables."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rpg.config.verl_keys import MODEL
from rpg.diagnostics import UserError
from rpg.dotted import shortest_end
from rpg.registry.datasets import BENCHMARKS, GYM, is_gym
from rpg.registry.methods import order_of
from rpg.results.runs import MEASURED_BY, Run, differing, made_apart, notes_of
from rpg.results.statistics import by_problem, half_width, pass_at
from rpg.rewards import JUDGES

MOST_DIFFERING = 3  # settings in a row's label; if more differ, the label has the run's name


@dataclass
class Table:
    """Rows by methods, columns by benchmarks.

    Attributes:
        rows: label -> the row's runs ([] of the paper's rows), in display order.
        cells: one line per row (method) and benchmark. before: the accuracy at step 0; *_se: standard errors over the
            seeds of `runs` runs, of a single run over its `problems`; leads_*: `leads`, which makes it bold.
    """

    title: str
    rows: dict[str, list[Run]]
    cells: Any  # a pandas frame, whose types are unions
    notes: list[str]

    @property
    def benchmarks(self) -> list[str]:
        """The benchmarks of all rows, in display order."""
        return list(dict.fromkeys(self.cells["benchmark"]))


def paper_table(number: int) -> Table:
    """Return table `number` of the paper: rows and columns in its order. Raises UserError: it has no results."""
    tables = pd.read_csv(Path(__file__).with_name("paper_tables.csv")).groupby("table")
    if number not in tables.groups:
        raise UserError(f"table {number}: the paper's tables of results are {', '.join(map(str, tables.groups))}")
    cells: Any = tables.get_group(number)
    title = "Paper, table {}: {}, {} context".format(number, *cells.iloc[0][["model", "context"]])
    return Table(title, {method: [] for method in cells["method"]}, ranked(cells.to_dict("records")), [])


def build_table(runs: Sequence[Run], paper: int | None = None) -> Table:
    """Return the table of `runs`: one row per method and setting; seeds of a setting are averaged.

    paper: the number of the paper's table whose rows of the same methods and benchmarks are shown beside.
    """
    rows, notes, lines, apart = labelled(runs), made_apart(runs), [], [*differing(runs, MEASURED_BY["accuracies"])]
    for label, members in rows.items():
        if len({run.seed for run in members}) < len(members):
            notes.append(f"{label}: runs of one seed are averaged, and ± is not over seeds")
        benchmarks = dict.fromkeys(str(name) for run in members for name in run.accuracies)
        if not benchmarks:
            notes.append(f"{label}: no accuracy in its log")
        for benchmark in benchmarks:
            if lacking := [run.name for run in members if benchmark not in run.accuracies]:
                notes.append(f"{label}: {benchmark} without {', '.join(lacking)}")
            validated = [run for run in members if benchmark in run.accuracies]
            lines.append({"method": label, "benchmark": benchmark, **numbers(validated, benchmark, apart)})
    notes += notes_of(run for members in rows.values() for run in members)
    if uneven := dict.fromkeys(line["method"] for line in lines if isinstance(line["step"], str)):
        notes.append(f"{', '.join(uneven)}: the last validations of the seeds are at different steps, so not ranked")
    counted = {"step of Last": "step", "number of validations (Best)": "validations"}
    unequal = [*apart, *(name for name, key in counted.items() if len({line[key] for line in lines}) > 1)]
    if unequal:
        notes.append(f"rows are ranked only among those with equal {', '.join(unequal)}")
    if keys := differing(runs, (f"{MODEL}.path", "data.train_files")):
        notes.append(f"rows differ in {' and '.join(keys)}")
    judges = ", ".join(dict.fromkeys(line["judge"] for line in lines))
    title, order = f"Mean@k on validation, judge {judges}", [*BENCHMARKS, *sorted(line["benchmark"] for line in lines)]
    if paper:
        theirs, ours = paper_table(paper), {(rows[line["method"]][0].method, line["benchmark"]) for line in lines}
        beside = [line | {"method": f"{line['method']} (paper)"} for line in theirs.cells.to_dict("records")
                  if (line["method"], line["benchmark"]) in ours]  # fmt: skip
        rows, lines = rows | {line["method"]: [] for line in beside}, [*lines, *beside]
        order = [*theirs.benchmarks, *order]
        if beside:
            title += f"; {theirs.title}, judge release"
        else:
            notes.append(f"{theirs.title} has none of these methods and benchmarks")
    rows = dict(sorted(rows.items(), key=lambda item: order_of(item[0])))
    lines.sort(key=lambda line: (order_of(line["method"]), order.index(line["benchmark"])))
    return Table(title, rows, ranked(lines), notes)


def numbers(runs: Sequence[Run], benchmark: str, apart: Sequence[str]) -> dict[str, Any]:
    """Return what the runs of one row have on a benchmark that all validated; apart: in what all rows differ."""
    curves = [run.accuracies[benchmark].dropna() for run in runs]
    ends: Any = pd.DataFrame([(curve.get(0, np.nan), curve.iloc[-1], curve.max()) for curve in curves])
    ends.columns = ["before", "last", "best"]
    errors = ends[["last", "best"]].sem().add_suffix("_se")
    line: dict[str, Any] = {**ends.mean(skipna=False), **errors, "runs": len(runs)}
    steps = sorted({curve.index[-1] for curve in curves})
    step = steps[0] if len(steps) == 1 else f"{steps[0]} to {steps[-1]}"
    measures = list(map(runs[0].settings.get, apart)) if len(steps) == 1 else runs[0].name  # which no other row has
    counts = str(sorted({len(curve) for curve in curves}))
    judge = GYM if is_gym(benchmark) and runs[0].judge in JUDGES else runs[0].judge  # of which each leaves these to it
    line |= {"judge": judge, "step": step, "measures": str(measures), "validations": counts}
    answers = [run.samples(curve.index[-1], benchmark) for run, curve in zip(runs, curves, strict=True)]
    if not all(map(len, answers)):
        return line
    problems: list[Any] = [by_problem(of_run) for of_run in answers]
    if len(runs) == 1:
        line |= {"last_se": problems[0]["mean"].sem(), "problems": len(problems[0])}
    most = min(int(of_run["size"].min()) for of_run in problems)
    powers = dict.fromkeys([*(2**power for power in range(most.bit_length())), most]) if most > 1 else ()
    return line | {f"pass@{k}": np.mean([pass_at(of_run, k) for of_run in answers]) for k in powers}


def labelled(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Return label -> runs: runs of one method and setting, which differ by their seeds.

    Labels of rows of the same method name the settings that differ or, if more than MOST_DIFFERING differ, a run's
    name, which is also the label of an unknown method. If the rows have several judges, labels name the judge.
    """
    groups: dict[tuple, list[Run]] = {}
    for run in runs:  # without config.yaml no other run is known to have its settings
        groups.setdefault((run.method, *sorted(run.settings.items()), "" if run.config else run.name), []).append(run)
    firsts, labels = [members[0] for members in groups.values()], dict[str, list[Run]]()
    methods = {first.method for first in firsts if first.method}
    changes = {name: differing([first for first in firsts if first.method == name]) for name in methods}
    for first, members in zip(firsts, groups.values(), strict=True):
        changed, name = changes.get(first.method, {}), first.name
        name += f" and {len(members) - 1} more" if len(members) > 1 else ""
        # keys with equal ends and values are one setting, which verl's configuration repeats
        named = {shortest_end(key, [other for other, others in changed.items() if others != values]): key
                 for key, values in changed.items()}  # fmt: skip
        details = [f"{end} {value.strip(chr(39))}" for end, key in named.items() if (value := first.settings.get(key))]
        if len(named) > MOST_DIFFERING:
            details = [name]
        if len({run.judge for run in firsts}) > 1 and f"judge {first.judge}" not in details:
            details.append(f"judge {first.judge}")
        label = first.method or name
        label += f" ({', '.join(details)})" if details else ""
        labels[f"{label} ({first.name})" if label in labels else label] = members  # 1 and '1' look alike
    return labels


def ranked(lines: Sequence[dict[Any, Any]]) -> pd.DataFrame:
    """Return Table.cells of lines; a value is ranked among those of its benchmark, step and measures.

    Best is ranked among rows with as many validations: the maximum of more validations is higher.
    """
    columns = ("method", "benchmark", "before", "last", "best", "last_se", "best_se", "runs", "problems", "judge",
               "step", "measures", "validations")  # fmt: skip
    powers = dict.fromkeys(name for line in lines for name in line if str(name).startswith("pass@"))
    cells: Any = pd.DataFrame(lines, columns=[*columns, *powers])
    alike = ["benchmark", "measures", "step"]
    for column, keys in (("last", alike), ("best", [*alike, "validations"])):
        for _, group in cells.groupby(keys, sort=False, dropna=False):
            rivals = group.to_dict("records")
            cells.loc[group.index, f"leads_{column}"] = [leads(line, rivals, column) for line in rivals]
    return cells.drop(columns=["measures", "validations"])


def leads(line: dict[Any, Any], rivals: list[dict[Any, Any]], column: str) -> bool:
    """Return whether a value is above those of the other rows by more than the noise of the difference."""
    others = [other for other in rivals if other is not line]
    return len(others) > 0 and all(
        line[column] - other[column] > half_width([error_of(line, column), error_of(other, column)]) for other in others
    )


def error_of(line: dict[Any, Any], column: str) -> tuple[float, float]:
    """Return standard error and degrees of freedom, over seeds or a single run's problems; infinite if unknown."""
    if line["runs"] > 1:
        return line[f"{column}_se"], line["runs"] - 1
    return (line["last_se"], line["problems"] - 1) if line["problems"] > 1 else (math.inf, 1)
