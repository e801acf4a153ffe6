"""Tables in the paper's form, Last and Best of Mean@k by method and benchmark, and the paper's own tables."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import PurePath
from typing import Any, cast

import pandas as pd

from rpg.config.keys import KEYS
from rpg.names import ACCURACY, BEST
from rpg.registry.datasets import BENCHMARKS
from rpg.registry.labels import order_of
from rpg.results import measures
from rpg.results.comparison import half_width, seeds_of
from rpg.results.messages import Note, ResultsError, listed
from rpg.results.run_settings import differing, setting, settings
from rpg.results.runs import RunLog, other_contents
from rpg.results.samples import Samples, samples_at

PAPER_JUDGE = "release"
MOST_DIFFERING = 3  # settings in a row's label; if more differ, the label is the run's name
# (table, method, benchmark) -> erratum; the numbers stay as printed
ERRATA = {(3, "RPG-URKL", "AIME25"): "erratum E11: Last 0.5261 is above Best 0.4938, which cannot be; kept as printed"}
# Columns of Table.cells besides pass@k; unknown values are None or NaN.
#   method, benchmark: the row's label and the column; rank_last, rank_best: 1 for the best value, 2 for the second
#   clear_last, clear_best: whether the value is above another, and the 95 % intervals of its differences from all
#   others exclude 0: it is then bold or underlined; always for the paper's numbers, which have no error
#   last_se, best_se: standard error over seeds; last_low, last_high: 95% interval over problems for a single run
#   paper_*, difference_*: the paper's values, and ours minus the paper's
COLUMNS = (
    "method", "benchmark", "last", "best", "rank_last", "rank_best", "clear_last", "clear_best", "judge", "runs",
    "last_se", "best_se", "last_low", "last_high", "paper_last", "paper_best", "difference_last", "difference_best",
)  # fmt: skip


@dataclass
class Table:
    """Rows by methods, columns by benchmarks.

    Attributes:
        rows: unique label -> the row's runs ([] in the paper's tables), in display order.
        cells: one line per row and benchmark, with COLUMNS and pass@k.
        setup: of the paper's tables the model and its tokens per response.
    """

    title: str
    rows: dict[str, list[RunLog]]
    cells: pd.DataFrame
    notes: list[Note] = field(default_factory=list)
    setup: dict[str, Any] = field(default_factory=dict)

    @property
    def benchmarks(self) -> list[str]:
        """The benchmarks of all rows, in display order."""
        return list(dict.fromkeys(self.cells["benchmark"]))

    @property
    def judges(self) -> list[str]:
        """The verifiers of the rows in order; [] for the paper's tables."""
        return list(dict.fromkeys(runs[0].judge for runs in self.rows.values() if runs))

    def method(self, label: str) -> str:
        """Return the paper's name of a row's method."""
        return self.rows[label][0].method if self.rows[label] else label

    def records(self) -> list[dict[str, Any]]:
        """Return `cells` as one dictionary per line; None for unknown values."""
        return cast(list[dict[str, Any]], self.cells.astype(object).where(self.cells.notna(), None).to_dict("records"))


def paper_table(number: int) -> Table:
    """Return table `number` of the paper: rows and columns in its order, values as printed.

    Raises:
        ResultsError: there is no such table of results.
    """
    with resources.files("rpg.results").joinpath("paper_tables.csv").open(encoding="utf-8") as file:
        printed = pd.read_csv(file)
    cells = [line for line in printed.to_dict("records") if line["table"] == number]
    if not cells:
        known = ", ".join(map(str, sorted(set(printed["table"]))))
        raise ResultsError(f"table {number}: the paper has no such table of results; there are {known}")
    title = f"Paper, table {number}: {cells[0]['model']}, {cells[0]['context']} context"
    notes = [Note(f"{method}, {name}: {text}") for (at, method, name), text in ERRATA.items() if at == number]
    setup = {"model": cells[0]["model"], "response": int(cells[0]["context"].removesuffix("K")) * 1024}
    return Table(title, {line["method"]: [] for line in cells}, _cells(cells), notes, setup)


def _cells(lines: Sequence[dict[Any, Any]]) -> pd.DataFrame:
    """Return a frame with all COLUMNS from lines with method, benchmark, last, best and optional values."""
    powers = {name: None for line in lines for name in line if str(name).startswith("pass@")}
    marked = [line | _marks(line, lines) for line in lines]
    cells = pd.DataFrame(marked, columns=[*COLUMNS, *powers])
    return cells.astype({"rank_last": "Int64", "rank_best": "Int64"})


def _marks(line: dict[Any, Any], lines: Sequence[dict[Any, Any]]) -> dict[str, Any]:
    """Return the rank of a value among those of its benchmark and kind, if there are several; ties share a rank."""
    marks: dict[str, Any] = {"runs": line.get("runs", 1)}
    for column in ("last", "best"):
        # others do not compare, which the notes say
        rivals = [
            rival for rival in lines
            if all(rival.get(key) == line.get(key) for key in ("benchmark", "end")) and len(line.get("end", ())) < 2
            and all(map(measures.alike, line.get(f"measured_{column}", ()), rival.get(f"measured_{column}", ())))
        ]  # fmt: skip
        rank = 1 + len({rival[column] for rival in rivals if rival[column] > line[column]})
        marks[f"rank_{column}"] = rank if rank <= 2 and len(rivals) > 1 else None
        others = [rival for rival in rivals if rival[column] != line[column]]
        marks[f"clear_{column}"] = "judge" not in line or (  # the paper's tables have none
            any(rival[column] < line[column] for rival in others)
            and all(abs(line[column] - rival[column]) > _noise(line, rival, column) for rival in others)
        )
    return marks


def _noise(line: dict[Any, Any], rival: dict[Any, Any], column: str) -> float:
    """Return half the interval of a difference, over seeds or a single run's problems; infinite if unknown or 0."""
    errors = []
    for one in (line, rival):
        if f"{column}_se" in one:
            errors.append((one[f"{column}_se"], one["seeds"] - 1))
        elif "last_low" in one:
            errors.append(((one["last_high"] - one["last_low"]) / (2 * 1.96), one["problems"] - 1 or 1))
        else:
            return math.inf
    return half_width(errors) or math.inf


def build_table(runs: Sequence[RunLog], notes: Sequence[Note] = (), paper: Table | None = None) -> Table:
    """Return the table of `runs`: one row per method and setting; seeds of a setting are averaged."""
    groups: dict[tuple, list[RunLog]] = {}
    for run in runs:
        key = (run.method, *sorted(settings(run.config).items())) if run.config else (run.method, run.name)
        groups.setdefault(key, []).append(run)
    labelled = zip(_labels(list(groups.values())), groups.values(), strict=True)
    rows = dict(sorted(labelled, key=lambda item: order_of(item[0])))
    kept = list(notes)
    for count in sorted({len(group) for group in rows.values() if len(group) > 1}):
        labels = [label for label, group in rows.items() if len(group) == count]
        which = "every row" if len(labels) == len(rows) else listed(labels)
        kept.append(Note(f"mean and standard error over {count} runs: {which}"))
    lines = []
    for label, group in rows.items():
        own_lines, own_notes = _lines(label, group)
        lines += own_lines
        kept += own_notes
    order = [*(paper.benchmarks if paper else ()), *BENCHMARKS, *sorted({line["benchmark"] for line in lines})]
    lines.sort(key=lambda line: (list(rows).index(line["method"]), order.index(line["benchmark"])))
    table = Table("Mean@k on validation", rows, _cells(lines), kept)
    steps = sorted({step for name in table.benchmarks for step in ends(runs, name)})
    if len(steps) > 1:
        text = f"Last is at different steps ({listed([*map(str, steps)])}): no rank, the lengths of training differ"
        kept.append(Note(text))
    labelled_runs = [(label, run) for label, group in rows.items() for run in group]
    kept += [note for number in measures.NUMBERS for note in measures.not_of_one_kind(number, labelled_runs)]
    if len(table.judges) > 1:
        text = (
            f"scored by different judges ({', '.join(table.judges)}), whose numbers do not compare; "
            "`rpg score RUN --judge J` scores saved samples by the other"
        )
        kept.append(Note(text))
    if paper:
        _compare(table, paper)
    return table


def ends(runs: Sequence[RunLog], benchmark: str) -> list[int]:
    """Return the steps of a benchmark's last values; an evaluation, whose row names its checkpoint, has none."""
    curves = [run.accuracies() for run in runs if not setting(run.config, "val_only")]
    return sorted({int(own[benchmark].index[-1]) for own in curves if benchmark in own})


def _compare(table: Table, paper: Table) -> None:
    """Add the paper's values for common benchmarks."""
    shared = [name for name in paper.benchmarks if name in table.benchmarks]
    if not shared:
        has = ", ".join(paper.benchmarks)
        table.notes.append(Note(f"nothing to compare: {paper.title} has {has}, none of which these runs have"))
        return
    table.title += f", beside {paper.title[0].lower()}{paper.title[1:]}"
    printed = paper.cells.set_index(["method", "benchmark"])
    places = pd.MultiIndex.from_arrays([table.cells["method"].map(table.method), table.cells["benchmark"]])
    for column in ("last", "best"):
        values = printed[column].reindex(places).to_numpy()
        table.cells[f"paper_{column}"] = values
        table.cells[f"difference_{column}"] = table.cells[column] - values
    if others := [judge for judge in table.judges if judge != PAPER_JUDGE]:
        text = f"the paper's judge is {PAPER_JUDGE}; differences from rows of {', '.join(others)} include the judge's"
        table.notes.append(Note(text))
    runs = [run for group in table.rows.values() for run in group if run.config]
    for name, printed_value in paper.setup.items():
        values = {PurePath(str(value)).name for run in runs if (value := setting(run.config, name)) is not None}
        if other := [value for value in sorted(values) if value.lower() != str(printed_value).lower()]:
            text = f"the paper's {KEYS[name]} is {printed_value}, here it is {', '.join(other)}"
            table.notes.append(Note(text))
    table.notes.extend(paper.notes)


def _labels(groups: list[list[RunLog]]) -> list[str]:
    """Return one label per group: the method, with differing settings and judges if several groups share it.

    If more than MOST_DIFFERING settings differ, or none is known, the label has the run's name instead.
    """
    several_judges = len({group[0].judge for group in groups}) > 1
    labels: list[str] = []
    for group in groups:
        method, group_settings = group[0].method, settings(group[0].config)
        rivals = [settings(other[0].config) for other in groups if other[0].method == method]
        # keys with equal last parts and values are one setting, which verl's configuration repeats
        distinct = {(key.rpartition(".")[2], *row): key for key, row in reversed(differing(rivals).items())}
        ends = [end for end, *_ in distinct]
        named = sorted((key, end if ends.count(end) == 1 else key) for (end, *_), key in distinct.items())
        details = [_detail(name, group_settings.get(key)) for key, name in named]
        if len(rivals) > 1 and not (group_settings and 0 < len(details) <= MOST_DIFFERING):
            details = [group[0].name + (f" and {len(group) - 1} more" if len(group) > 1 else "")]
        judge = f"judge {group[0].judge}"
        if several_judges and judge not in details:
            details.append(judge)
        labels.append(f"{method} ({', '.join(details)})" if details else method)
    return labels


def _detail(name: str, value: str | None) -> str:
    if name == "scored_again":  # by `rpg score`, with the judge that it had
        return "as logged" if value is None else "scored again"
    return f"{name} {'unset' if value is None else value}"


def _lines(label: str, group: list[RunLog]) -> tuple[list[dict[str, Any]], list[Note]]:
    """Return the cells of a row, means over the group's runs with standard errors over seeds, and notes."""
    lines, notes = [], []
    if len({seeds_of(run) for run in group}) < len(group):
        notes.append(Note(f"{label}: some runs have the same seed and differ by something else"))
    notes += other_contents(label, group)
    measured = [measures.measured_by(number, group[0]) for number in (ACCURACY, BEST)]
    accuracies = [run.accuracies() for run in group]
    samples = []
    for run, curves in zip(group, accuracies, strict=True):
        own_samples, left_out = _last_samples(run, curves)
        samples.append(own_samples)
        notes += [note.about(run.name) for note in dict.fromkeys([*run.notes, *left_out])]
        if run.stopped_early:
            text = f"at step {run.last_step} of {run.planned_steps}, still running or stopped early"
            notes.append(Note(text).about(run.name))
    for name in sorted({name for curves in accuracies for name in curves}):
        series = [curves[name] for curves in accuracies if name in curves]
        if len(series) < len(group):
            notes.append(Note(f"{label}: {name} in {len(series)} of {len(group)} runs only"))
        line: dict[str, Any] = {"method": label, "benchmark": name, "judge": group[0].judge, "runs": len(group)}
        line["measured_last"], line["measured_best"], line["end"] = measured[:1], measured, ends(group, name)
        of_runs = {"last": [points.iloc[-1] for points in series], "best": [points.max() for points in series]}
        for column, values in of_runs.items():
            line[column] = statistics.fmean(values)
            if len(values) > 1:
                line[f"{column}_se"], line["seeds"] = statistics.stdev(values) / math.sqrt(len(values)), len(values)
        own_samples = [by_benchmark[name] for by_benchmark in samples if name in by_benchmark]
        if len(series) == 1 and own_samples:
            line["last_low"], line["last_high"] = own_samples[0].interval()
            line["problems"] = len(own_samples[0].total)
        if 0 < len(own_samples) < len(series):
            text = f"{label}: no pass@k of {name}: samples of {len(own_samples)} of {len(series)} runs only"
            notes.append(Note(text, left_out=True))
            own_samples = []
        k = min((run_samples.k for run_samples in own_samples), default=1)
        if k > 1 and all(run_samples.binary for run_samples in own_samples):
            for n in dict.fromkeys([*(2**power for power in range(k.bit_length())), k]):
                line[f"pass@{n}"] = statistics.fmean(run_samples.pass_at(n) for run_samples in own_samples)
        lines.append(line)
    return lines, notes


def _last_samples(run: RunLog, accuracies: dict[str, pd.Series]) -> tuple[dict[str, Samples], list[Note]]:
    """Return benchmark -> samples of the last validation, and notes on unusable ones."""
    kept: dict[str, Samples] = {}
    notes: list[Note] = []
    for step in sorted({int(points.index[-1]) for points in accuracies.values()}):
        found, left_out = samples_at(run, step)
        notes += left_out
        kept |= {name: samples for name, samples in found.items() if accuracies[name].index[-1] == step}
    return kept, notes
