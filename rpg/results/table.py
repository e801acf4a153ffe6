"""Runs -> the rows and cells of a table in the paper's form."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field

from rpg.methods.labels import order_of
from rpg.results.benchmarks import BENCHMARKS
from rpg.results.experiments import settings
from rpg.results.records import LeftOut, ResultsError, about
from rpg.results.runs import Run
from rpg.results.samples import Samples, read_samples

PAPER_JUDGE = "release"
TOLD_APART_BY = 3  # more differing settings than this, and a run's name says it better


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
    runs: list[Run] = field(default_factory=list)

    @property
    def judge(self) -> str | None:
        """Who scored the row's runs; None for a row of the paper's."""
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
        """Who scored the rows, in their order; [] for a table of the paper's."""
        return list(dict.fromkeys(row.judge for row in self.rows if row.judge))

    def rank(self, row: Row, benchmark: str, column: str) -> int | None:
        """1 for the best value of a column ("last" or "best"), 2 for the second; ties share; else None.

        Among the rows of one judge; where there is one row, there is no best.
        """
        rows = [other for other in self.rows if other.judge == row.judge]
        values = sorted({getattr(r.cells[benchmark], column) for r in rows if benchmark in r.cells}, reverse=True)
        if benchmark not in row.cells or len(rows) < 2:
            return None
        place = values.index(getattr(row.cells[benchmark], column)) + 1
        return place if place <= 2 else None


def build_table(runs: Sequence[Run], notes: Sequence[str] = (), paper: Table | None = None) -> Table:
    """The table of `runs`: one row for each method and setting, seeds of one setting averaged."""
    groups: dict[tuple, list[Run]] = {}
    for run in runs:
        key = (run.method, *sorted(settings(run.config).items())) if run.config else (run.method, run.name)
        groups.setdefault(key, []).append(run)
    table = Table("Mean@k on validation", notes=list(notes))
    for label, group in zip(_labels(list(groups.values())), groups.values(), strict=True):
        table.rows.append(_row(label, group, table.notes))
    table.rows.sort(key=lambda row: order_of(row.label))
    seen = {benchmark for row in table.rows for benchmark in row.cells}
    ordered = [*(paper.benchmarks if paper else ()), *BENCHMARKS, *sorted(seen)]
    table.benchmarks = [name for name in dict.fromkeys(ordered) if name in seen]
    for row in table.rows:
        if missing := [name for name in table.benchmarks if name not in row.cells]:
            table.notes.append(f"{row.label}: no validation on {', '.join(missing)}")
    ends = sorted({points[-1][0] for run in runs for points in run.accuracies().values()})
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
    table.title += f", beside {paper.title[0].lower()}{paper.title[1:]}"
    shared = [name for name in paper.benchmarks if name in table.benchmarks]
    if not shared:
        table.notes.append(
            f"nothing to compare: the paper's table has {', '.join(paper.benchmarks)}, none of which these runs have; "
            "its numbers stand in columns of their own"
        )
        table.benchmarks += paper.benchmarks
    table.paper = {row.method: row for row in paper.rows}
    ran = {row.method for row in table.rows}
    if absent := [row.method for row in paper.rows if row.method not in ran]:
        table.notes.append(f"in the paper's table and not among these runs: {', '.join(absent)}")
    if shared and (absent := [name for name in paper.benchmarks if name not in shared]):
        table.notes.append(f"benchmarks of the paper's table without a value of ours: {', '.join(absent)}")
    if shared and (others := [judge for judge in table.judges if judge != PAPER_JUDGE]):
        table.notes.append(
            f"the paper's judge is {PAPER_JUDGE}; a difference to rows of {', '.join(others)} is also its"
        )
    table.notes.extend(paper.notes)


def _labels(groups: list[list[Run]]) -> list[str]:
    """One label a group: the method, where two groups share it the settings that differ, and judges that do."""
    judged = len({group[0].judge for group in groups}) > 1
    labels: list[str] = []
    for group in groups:
        told = _told_apart(group, groups)
        said = f"judge {group[0].judge}"
        if judged and said not in told:
            told.append(said)
        labels.append(f"{group[0].method} ({', '.join(told)})" if told else group[0].method)
    return labels


def _told_apart(group: list[Run], groups: list[list[Run]]) -> list[str]:
    """What tells a group from the others of its method: settings, or its name where those are too many."""
    rivals = [other for other in groups if other[0].method == group[0].method]
    if len(rivals) == 1:
        return []
    all_settings = [settings(rival[0].config) for rival in rivals]
    keys = sorted({key for one in all_settings for key in one})
    differing = [key for key in keys if len({one.get(key) for one in all_settings}) > 1]
    # keys that end alike and have the same values are one setting, which verl's configuration passes on
    alike = {(key.rpartition(".")[2], *(one.get(key) for one in all_settings)): key for key in reversed(differing)}
    differing = sorted(alike.values())
    own = settings(group[0].config)
    if not own or not differing or len(differing) > TOLD_APART_BY:
        return [group[0].name + (f" and {len(group) - 1} more" if len(group) > 1 else "")]
    return [f"{_shortest(key, differing)} {own.get(key, 'unset')}" for key in differing]


def _shortest(key: str, keys: list[str]) -> str:
    """The fewest last parts of a dotted key that no other of `keys` ends with; all of it where there are none."""
    parts = key.split(".")
    ends = [".".join(parts[first:]) for first in reversed(range(len(parts)))]
    return next((end for end in ends if sum(f".{other}".endswith(f".{end}") for other in keys) == 1), key)


def _row(label: str, group: list[Run], notes: list[str]) -> Row:
    row = Row(label, group[0].method, runs=group)
    if len(group) > 1:
        notes.append(f"{label}: mean and standard error over {len(group)} runs")
        if len({tuple(sorted(settings(run.config, seeds=True).items())) for run in group}) < len(group):
            notes.append(f"{label}: runs with the same seed among them; what they differ by is no seed")
    for run in group:
        _take_notes(run, notes)
        if run.stopped_early:
            notes.append(f"{run.name}: stopped early, at step {run.last_step} of {run.planned_steps}")
    points = [run.accuracies() for run in group]
    for benchmark in sorted({name for found in points for name in found}):
        having = [(run, found) for run, found in zip(group, points, strict=True) if benchmark in found]
        if len(having) < len(group):
            notes.append(f"{label}: {benchmark} in {len(having)} of {len(group)} runs only")
        read = [_samples(run, found[benchmark], benchmark, list(found)) for run, found in having]
        samples = [one for one in read if one]
        row.cells[benchmark] = _cell([found[benchmark] for _, found in having], samples)
        if row.cells[benchmark].pass_at:
            _say_samples(f"{label}: pass@k on {benchmark}", samples, len(having), notes)
        for run, found in zip(group, points, strict=True):
            if benchmark in found:
                _say_steps(run, benchmark, found[benchmark], notes)
    if not row.cells:
        notes.append(f"{label}: no validation in the log; nothing to show")
    elif not any(cell.interval for cell in row.cells.values()) and len(group) == 1:
        notes.append(f"{label}: no samples on disk (trainer.validation_data_dir), so no confidence interval")
    for run in group:  # what reading the samples had to say
        _take_notes(run, notes)
    return row


def _take_notes(run: Run, notes: list[str]) -> None:
    """Move a run's notes to the table's, each once: the samples are read for every benchmark."""
    notes.extend(about(run.name, note) for note in dict.fromkeys(run.notes))
    run.notes = []


def _say_samples(what: str, samples: list[Samples], runs: int, notes: list[str]) -> None:
    if len(samples) < runs:
        notes.append(f"{what} of {len(samples)} of {runs} runs")
    totals = {total for one in samples for total in one.total}
    if any(len(set(one.total)) > 1 for one in samples):
        notes.append(
            f"{what} is the mean over problems, of which each counts the same; Last is the mean over their answers, "
            f"{min(totals)} to {max(totals)} a problem"
        )


def _say_steps(run: Run, benchmark: str, points: list[tuple[int, float]], notes: list[str]) -> None:
    last, (best_step, best) = points[-1][0], max(points, key=lambda point: point[1])
    if last < run.last_step:
        notes.append(f"{run.name}: Last on {benchmark} is of step {last}; {run.last_step} is the run's last step")
    if best_step == 0 and best > points[-1][1]:
        notes.append(f"{run.name}: Best on {benchmark} is of step 0, before any training")


def _samples(run: Run, points: list[tuple[int, float]], benchmark: str, names: list[str]) -> Samples | None:
    """Samples of a run's last validation; None where it wrote none, or, as is noted, none that can be used."""
    try:
        return read_samples(run, points[-1][0], names).get(benchmark)
    except (ResultsError, OSError) as error:
        run.notes.append(LeftOut(f"{error}; no interval, no pass@k"))
        return None


def _cell(series: list[list[tuple[int, float]]], samples: list[Samples]) -> Cell:
    """series, samples: of each run of the group. With several, the seeds say how sure a mean is, not the problems."""
    lasts = [points[-1][1] for points in series]
    bests = [max(value for _, value in points) for points in series]
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
