"""Runs -> the rows and cells of a table in the paper's form."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

import pandas as pd

from rpg.methods.labels import order_of
from rpg.results.config import BENCHMARKS, LeftOut, ResultsError, about, settings
from rpg.results.runs import RunLog
from rpg.results.samples import Samples, read_samples

PAPER_JUDGE = "release"
MOST_DIFFERING = 3  # settings in a row's label; where more differ, the run's name says it better


@dataclass(frozen=True)
class Cell:
    """Last and Best of Mean@k of one method on one benchmark; means over seeds where there are several.

    Attributes:
        last_se, best_se: standard error over seeds; None for one run.
        interval: 95% confidence interval of Last over problems; None without samples on disk.
        pass_at: k -> pass@k at the last validation, mean over seeds; empty with one sample a problem.
    """

    last: float
    best: float
    last_se: float | None = None
    best_se: float | None = None
    interval: tuple[float, float] | None = None
    pass_at: dict[int, float] = field(default_factory=dict)

    @property
    def impossible(self) -> bool:
        """Whether Last is above Best."""
        return self.last > self.best


@dataclass
class Row:
    """One method with one setting: `label` is unique in a table, `method` the paper's name."""

    label: str
    method: str
    cells: dict[str, Cell] = field(default_factory=dict)
    runs: list[RunLog] = field(default_factory=list)

    @property
    def judge(self) -> str | None:
        """The verifier that scored the row's runs; None for a row of the paper's."""
        return self.runs[0].judge if self.runs else None


@dataclass
class Table:
    """Rows by methods, columns by benchmarks; `paper` holds the paper's rows to compare with, by method."""

    title: str
    benchmarks: list[str] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    paper: dict[str, Row] = field(default_factory=dict)

    @property
    def judges(self) -> list[str]:
        """The verifiers of the rows, in their order; [] for a table of the paper's."""
        return list(dict.fromkeys(row.judge for row in self.rows if row.judge))

    def rank(self, row: Row, benchmark: str, column: str) -> int | None:
        """1 for the best value of a column ("last" or "best"), 2 for the second; ties share; else None.

        Among the rows of one judge; a single row has no rank.
        """
        rows = [other for other in self.rows if other.judge == row.judge]
        values = sorted({getattr(r.cells[benchmark], column) for r in rows if benchmark in r.cells}, reverse=True)
        if benchmark not in row.cells or len(rows) < 2:
            return None
        place = values.index(getattr(row.cells[benchmark], column)) + 1
        return place if place <= 2 else None


def build_table(runs: Sequence[RunLog], notes: Sequence[str] = (), paper: Table | None = None) -> Table:
    """The table of `runs`: one row for each method and setting, seeds of one setting averaged."""
    groups: dict[tuple, list[RunLog]] = {}
    for run in runs:
        key = (run.method, *sorted(settings(run.config).items())) if run.config else (run.method, run.name)
        groups.setdefault(key, []).append(run)
    table = Table("Mean@k on validation", notes=list(notes))
    for label, group in zip(_labels(list(groups.values())), groups.values(), strict=True):
        table.rows.append(_row(label, group, table.notes))
    table.rows.sort(key=lambda row: order_of(row.label))
    present = {benchmark for row in table.rows for benchmark in row.cells}
    ordered = [*(paper.benchmarks if paper else ()), *BENCHMARKS, *sorted(present)]
    table.benchmarks = [name for name in dict.fromkeys(ordered) if name in present]
    for row in table.rows:
        if missing := [name for name in table.benchmarks if name not in row.cells]:
            table.notes.append(f"{row.label}: no validation on {', '.join(missing)}")
    ends = sorted({int(points.index[-1]) for run in runs for points in run.accuracies().values()})
    if len(ends) > 1:
        table.notes.append(f"Last is of different steps ({', '.join(map(str, ends))}): not the same length of training")
    if len(table.judges) > 1:
        table.notes.append(
            f"scored by different judges ({', '.join(table.judges)}), whose numbers do not compare; "
            "`rpg score RUN --judge J` scores saved samples by the other"
        )
    if paper:
        _compare(table, paper)
    return table


def _compare(table: Table, paper: Table) -> None:
    """Put the paper's rows beside ours, as far as they share a benchmark."""
    shared = [name for name in paper.benchmarks if name in table.benchmarks]
    if not shared:
        table.notes.append(
            f"nothing to compare: {paper.title} has {', '.join(paper.benchmarks)}, none of which these runs have"
        )
        return
    table.title += f", beside {paper.title[0].lower()}{paper.title[1:]}"
    table.paper = {row.method: row for row in paper.rows}
    ran = {row.method for row in table.rows}
    if absent := [row.method for row in paper.rows if row.method not in ran]:
        table.notes.append(f"in the paper's table and not among these runs: {', '.join(absent)}")
    if absent := [name for name in paper.benchmarks if name not in shared]:
        table.notes.append(f"benchmarks of the paper's table without a value of ours: {', '.join(absent)}")
    if others := [judge for judge in table.judges if judge != PAPER_JUDGE]:
        table.notes.append(
            f"the paper's judge is {PAPER_JUDGE}; a difference to rows of {', '.join(others)} is also its"
        )
    table.notes.extend(paper.notes)


def _labels(groups: list[list[RunLog]]) -> list[str]:
    """One label a group: the method, where two groups share it the settings that differ, and judges that do."""
    several_judges = len({group[0].judge for group in groups}) > 1
    labels: list[str] = []
    for group in groups:
        details = _differing_settings(group, groups)
        judge = f"judge {group[0].judge}"
        if several_judges and judge not in details:
            details.append(judge)
        labels.append(f"{group[0].method} ({', '.join(details)})" if details else group[0].method)
    return labels


def _differing_settings(group: list[RunLog], groups: list[list[RunLog]]) -> list[str]:
    """The settings by which a group differs from the others of its method; its name where those are too many."""
    rivals = [other for other in groups if other[0].method == group[0].method]
    if len(rivals) == 1:
        return []
    all_settings = [settings(rival[0].config) for rival in rivals]
    keys = sorted({key for one in all_settings for key in one})
    values = {key: tuple(one.get(key) for one in all_settings) for key in keys}
    # keys that end alike and have the same values are one setting, which verl's configuration passes on
    alike = {(key.rpartition(".")[2], *v): key for key, v in reversed(values.items()) if len(set(v)) > 1}
    differing = sorted(alike.values())
    own = settings(group[0].config)
    if not own or not differing or len(differing) > MOST_DIFFERING:
        return [group[0].name + (f" and {len(group) - 1} more" if len(group) > 1 else "")]
    return [f"{_shortest(key, differing)} {own.get(key, 'unset')}" for key in differing]


def _shortest(key: str, keys: list[str]) -> str:
    """The fewest last parts of a dotted key that no other of `keys` ends with; all of it where there are none."""
    parts = key.split(".")
    ends = [".".join(parts[first:]) for first in reversed(range(len(parts)))]
    return next((end for end in ends if sum(f".{other}".endswith(f".{end}") for other in keys) == 1), key)


def _row(label: str, group: list[RunLog], notes: list[str]) -> Row:
    row = Row(label, group[0].method, runs=group)
    if len(group) > 1:
        notes.append(f"{label}: mean and standard error over {len(group)} runs")
        if len({tuple(sorted(settings(run.config, seeds=True).items())) for run in group}) < len(group):
            notes.append(f"{label}: runs with the same seed among them; what they differ by is no seed")
    accuracies = [run.accuracies() for run in group]
    for run, found in zip(group, accuracies, strict=True):
        if run.stopped_early:
            run.notes.append(f"stopped early, at step {run.last_step} of {run.planned_steps}")
        for benchmark, points in found.items():
            if points.index[-1] < run.last_step:
                end = f"is of step {points.index[-1]}; {run.last_step} is the run's last step"
                run.notes.append(f"Last on {benchmark} {end}")
            if points.idxmax() == 0 and points[0] > points.iloc[-1]:
                run.notes.append(f"Best on {benchmark} is of step 0, before any training")
    all_samples = [_last_samples(run, found) for run, found in zip(group, accuracies, strict=True)]
    for benchmark in sorted({name for found in accuracies for name in found}):
        series = [found[benchmark] for found in accuracies if benchmark in found]
        if len(series) < len(group):
            notes.append(f"{label}: {benchmark} in {len(series)} of {len(group)} runs only")
        samples = [found[benchmark] for found in all_samples if benchmark in found]
        row.cells[benchmark] = _cell(series, samples)
        if row.cells[benchmark].pass_at:
            _note_samples(f"{label}: pass@k on {benchmark}", samples, len(series), notes)
    if not row.cells:
        notes.append(f"{label}: no validation in the log; nothing to show")
    elif not any(cell.interval for cell in row.cells.values()) and len(group) == 1:
        notes.append(f"{label}: no samples on disk (trainer.validation_data_dir), so no confidence interval")
    for run in group:
        notes.extend(about(run.name, note) for note in dict.fromkeys(run.notes))
        run.notes = []
    return row


def _note_samples(what: str, samples: list[Samples], runs: int, notes: list[str]) -> None:
    if len(samples) < runs:
        notes.append(f"{what} of {len(samples)} of {runs} runs")
    totals = {total for one in samples for total in one.total}
    if any(len(set(one.total)) > 1 for one in samples):
        notes.append(
            f"{what} is the mean over problems, of which each counts the same; Last is the mean over their answers, "
            f"{min(totals)} to {max(totals)} a problem"
        )


def _last_samples(run: RunLog, accuracies: dict[str, pd.Series]) -> dict[str, Samples]:
    """Benchmark -> samples of its last validation; without those that cannot be used, which is noted."""
    found: dict[str, Samples] = {}
    for step in {int(points.index[-1]) for points in accuracies.values()}:
        try:
            read = read_samples(run, step, accuracies)
            found |= {name: one for name, one in read.items() if accuracies[name].index[-1] == step}
        except (ResultsError, OSError) as error:
            run.notes.append(LeftOut(f"{error}; no interval, no pass@k"))
    return found


def _cell(series: list[pd.Series], samples: list[Samples]) -> Cell:
    """series, samples: of each run of the group. With several, the seeds say how sure a mean is, not the problems."""
    lasts, bests = [points.iloc[-1] for points in series], [points.max() for points in series]
    k = min((one.k for one in samples), default=1)
    powers = [2**power for power in range(int(math.log2(k)) + 1)]
    return Cell(
        statistics.fmean(lasts),
        statistics.fmean(bests),
        _standard_error(lasts),
        _standard_error(bests),
        samples[0].interval() if samples and len(series) == 1 else None,
        {n: statistics.fmean(one.pass_at(n) for one in samples) for n in dict.fromkeys([*powers, k]) if k > 1},
    )


def _standard_error(values: list[float]) -> float | None:
    return statistics.stdev(values) / math.sqrt(len(values)) if len(values) > 1 else None
