"""Tables in the paper's form, Last and Best of Mean@k by method and benchmark, and the paper's own tables."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import PurePath
from typing import Any, cast

import pandas as pd

from rpg.config.verl_keys import MODEL
from rpg.dotted import value_at
from rpg.registry.datasets import BENCHMARKS
from rpg.registry.methods import order_of
from rpg.results.comparison import half_width, other_contents
from rpg.results.messages import LeftOut, ResultsError, about, begin_of
from rpg.results.runs import Run, notes_of
from rpg.results.samples import by_problem, interval, is_binary, pass_at, read_samples
from rpg.results.settings import differing, measured_by, settings

PAPER_JUDGE = "release"
MOST_DIFFERING = 3  # settings in a row's label; if more differ, the label is the run's name
# (table, method, benchmark) -> erratum; the numbers stay as printed
ERRATA = {(3, "RPG-URKL", "AIME25"): "erratum E11: Last 0.5261 is above Best 0.4938, which cannot be; kept as printed"}
# Columns of Table.cells besides pass@k; unknown values are None or NaN.
#   method, benchmark: the row's label and the column; before: the accuracy at step 0
#   rank_last, rank_best: 1 for the best value, 2 for the second, among rows that are measured alike
#   clear_last, clear_best: whether the value is above another, and the 95 % intervals of its differences from all
#   others exclude 0: it is then bold or underlined; always for the paper's numbers, which have no error
#   last_se, best_se: standard error over seeds; last_low, last_high: 95% interval over problems for a single run
#   paper_*, difference_*: the paper's values, and ours minus the paper's
COLUMNS = (
    "method", "benchmark", "before", "last", "best", "rank_last", "rank_best", "clear_last", "clear_best", "judge",
    "runs", "last_se", "best_se", "last_low", "last_high", "paper_last", "paper_best", "difference_last",
    "difference_best",
)  # fmt: skip


@dataclass
class Table:
    """Rows by methods, columns by benchmarks.

    Attributes:
        rows: unique label -> the row's runs ([] in the paper's tables), in display order.
        cells: one line per row and benchmark, with COLUMNS and pass@k.
        setup: of the paper's tables the model, its tokens per response and the judge, by key.
    """

    title: str
    rows: dict[str, list[Run]]
    cells: Any  # a pandas frame, whose types are unions
    notes: list[str] = field(default_factory=list)
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

    Raises ResultsError: there is no such table of results.
    """
    with resources.files("rpg.results").joinpath("paper_tables.csv").open(encoding="utf-8") as file:
        printed = pd.read_csv(file)
    cells: Any = printed[printed["table"] == number]
    if cells.empty:
        known = ", ".join(map(str, sorted(set(printed["table"]))))
        raise ResultsError(f"table {number}: the paper has no such table of results; there are {known}")
    model, context = cells.iloc[0][["model", "context"]]
    notes = [f"{method}, {name}: {text}" for (at, method, name), text in ERRATA.items() if at == number]
    setup = {f"{MODEL}.path": model, "data.max_response_length": int(context.removesuffix("K")) * 1024}
    lines = [{**line, "kind": "", "is_printed": True} for line in cells.to_dict("records")]
    title = f"Paper, table {number}: {model}, {context} context"
    return Table(title, {line["method"]: [] for line in lines}, ranked(lines), notes, setup | {"judge": PAPER_JUDGE})


def build_table(runs: Sequence[Run], notes: Sequence[str] = (), paper: Table | None = None) -> Table:
    """Return the table of `runs`: one row per method and setting; seeds of a setting are averaged."""
    rows, kept = labelled(runs), [*notes, *notes_of(runs)]
    for label, own in rows.items():
        if len({run.seed for run in own}) < len(own):
            kept.append(f"{label}: some runs have the same seed and differ by something else")
        kept += other_contents(label, own)
    of_runs = accuracies(rows).groupby(["row", "benchmark", "run"])
    ends: Any = of_runs.agg(before=("acc", "first"), last=("acc", "last"), best=("acc", "max"), step=("step", "last"))
    ends["before"] = ends["before"].where(of_runs["step"].first() == 0)
    of_rows = ends.groupby(level=["row", "benchmark"])
    means, errors = of_rows[["before", "last", "best"]].mean(), of_rows[["last", "best"]].sem().add_suffix("_se")
    kinds, steps, lines = measured_by([own[0] for own in rows.values()]), set[int](), []
    for (label, benchmark), numbers in means.join(errors).iterrows():
        of_row, number = ends.loc[label, benchmark], list(rows).index(label)
        line = {"method": label, "benchmark": benchmark, "judge": rows[label][0].judge, "runs": len(rows[label])}
        lines.append(line | numbers.to_dict() | {"seeds": len(of_row), "kind": str(kinds[number])})
        if not value_at(rows[label][0].config, "trainer.val_only"):  # an evaluation's row names its checkpoint
            lines[-1]["kind"] += str(sorted({*of_row["step"]}))
            steps |= {*of_row["step"]}
        if len(of_row) < len(rows[label]):
            kept.append(f"{label}: {benchmark} in {len(of_row)} of {len(rows[label])} runs only")
        lines[-1] |= _of_samples(label, rows[label], benchmark, kept)
    order = [*(paper.benchmarks if paper else ()), *BENCHMARKS, *sorted({line["benchmark"] for line in lines})]
    lines.sort(key=lambda line: (list(rows).index(line["method"]), order.index(line["benchmark"])))
    kept += not_compared(kinds, {"step of Last": sorted(steps)} if len(steps) > 1 else {})
    table = Table("Mean@k on validation", rows, ranked(lines), kept)
    if paper:
        _compare(table, paper)
    return table


def accuracies(rows: dict[str, list[Run]]) -> pd.DataFrame:
    """Return all runs' validations as one frame: row, run, method, seed, benchmark, step, acc."""
    frames = []
    for label, run in ((label, run) for label, own in rows.items() for run in own):
        long = run.accuracies.rename_axis("step").reset_index().melt("step", var_name="benchmark", value_name="acc")
        frames.append(long.assign(row=label, run=str(run.directory), method=run.method, seed=run.seed))
    return pd.concat(frames).dropna(subset="acc")


def labelled(runs: Sequence[Run]) -> dict[str, list[Run]]:
    """Return label -> runs, in the order of tables: runs of one method and setting, which differ by their seeds.

    If several rows have one method, their labels have the settings that differ, and if more than MOST_DIFFERING
    differ, or none is known, the run's name. Rows of several judges name them.
    """
    groups: dict[tuple, list[Run]] = {}
    for run in runs:
        key = (run.method, *sorted(settings(run.config).items())) if run.config else (run.method, run.name)
        groups.setdefault(key, []).append(run)
    several_judges = len({own[0].judge for own in groups.values()}) > 1
    labels: dict[str, list[Run]] = {}
    for own in groups.values():
        first, known = own[0], settings(own[0].config)
        rivals = [settings(other[0].config) for other in groups.values() if other[0].method == first.method]
        # keys with equal last parts and values are one setting, which verl's configuration repeats
        distinct = {(key.rpartition(".")[2], *row): key for key, row in reversed(differing(rivals).items())}
        ends = [end for end, *_ in distinct]
        named = sorted((key, end if ends.count(end) == 1 else key) for (end, *_), key in distinct.items())
        details = [f"{name} {known.get(key, 'unset')}" for key, name in named]
        if len(rivals) > 1 and not (known and 0 < len(details) <= MOST_DIFFERING):
            details = [first.name + (f" and {len(own) - 1} more" if len(own) > 1 else "")]
        if several_judges and f"judge {first.judge}" not in details:
            details.append(f"judge {first.judge}")
        labels[f"{first.method} ({', '.join(details)})" if details else first.method] = own
    return dict(sorted(labels.items(), key=lambda item: order_of(item[0])))


def not_compared(kinds: Sequence[dict[str, str]], more: dict[str, Any] | None = None) -> list[str]:
    """Return the note on the keys in which the measures of rows differ; [] if there are none.

    kinds: `measured_by` of each row; those of runs without a configuration are not known. more: key -> values.
    """
    known = [kind for kind in kinds if kind]
    values = {key: dict.fromkeys(kind.get(key, "not set") for kind in known) for kind in known for key in kind}
    different = {key: list(own) for key, own in values.items() if len(own) > 1} | (more or {})
    texts = [f"{key} ({begin_of(', '.join(map(str, own)), 60)})" for key, own in different.items()]
    return [f"accuracies compare only where these are equal: {'; '.join(texts)}"] if texts else []


def _of_samples(label: str, runs: Sequence[Run], benchmark: str, notes: list[str]) -> dict[str, Any]:
    """Return last_low and last_high of a single run, problems, and pass@k at the last validation; add notes."""
    validated, found = [run for run in runs if benchmark in run.accuracies], list[Any]()
    for run in validated:
        try:
            samples, left_out = read_samples(run, run.accuracies[benchmark].dropna().index[-1])
            notes += [note for one in left_out if (note := about(run.name, one)) not in notes]
            found += [own] if len(own := samples[samples["benchmark"] == benchmark]) else []
        except (ResultsError, OSError) as error:
            notes.append(LeftOut(f"{error}; no interval, no pass@k"))
    if not found:
        return {}
    problems, line = list[Any](map(by_problem, found)), dict[str, Any]()
    if len(validated) == 1:
        line["last_low"], line["last_high"] = interval(problems[0])
        line["problems"] = len(problems[0])
    k = min(int(own["size"].min()) for own in problems)
    if len(found) < len(validated):
        notes.append(LeftOut(f"{label}: no pass@k of {benchmark}: samples of {len(found)} of {len(validated)} runs"))
    elif k > 1 and all(map(is_binary, found)):
        for n in dict.fromkeys([*(2**power for power in range(k.bit_length())), k]):
            line[f"pass@{n}"] = sum(pass_at(own, n) for own in problems) / len(problems)
    return line


def ranked(lines: list[dict[Any, Any]]) -> pd.DataFrame:
    """Return Table.cells of lines: the ranks 1 and 2 are among values of one benchmark and kind, if there are several.

    lines: method, benchmark, last, best, kind (rows of another kind do not compare) and known values of COLUMNS.
    """
    powers = dict.fromkeys(name for line in lines for name in line if str(name).startswith("pass@"))
    cells: Any = pd.DataFrame(lines, columns=[*COLUMNS, "kind", *powers])
    groups = cells.groupby(["benchmark", "kind"], sort=False)
    for column in ("last", "best"):
        rank, size = groups[column].rank(method="dense", ascending=False), groups[column].transform("size")
        cells[f"rank_{column}"] = rank.where((rank <= 2) & (size > 1)).astype("Int64")
        cells[f"clear_{column}"] = [line.get("is_printed", False) or _is_clear(line, lines, column) for line in lines]
    return cells.drop(columns="kind").fillna({"runs": 1})


def _is_clear(line: dict[Any, Any], lines: list[dict[Any, Any]], column: str) -> bool:
    """Return whether a value is above another, and its differences from all others exceed their noise."""
    others = [other for other in lines if other[column] != line[column]
              and all(other[key] == line[key] for key in ("benchmark", "kind"))]  # fmt: skip
    return any(other[column] < line[column] for other in others) and all(
        abs(line[column] - other[column]) > (half_width([_error(line, column), _error(other, column)]) or math.inf)
        for other in others
    )


def _error(line: dict[Any, Any], column: str) -> tuple[float, float]:
    """Return standard error and degrees of freedom, over seeds or a single run's problems; infinite if unknown."""
    if line.get("seeds", 1) > 1:
        return line[f"{column}_se"], line["seeds"] - 1
    if "last_low" in line:
        return (line["last_high"] - line["last_low"]) / (2 * 1.96), line["problems"] - 1 or 1
    return math.inf, 1


def _compare(table: Table, paper: Table) -> None:
    """Add the paper's values for common benchmarks."""
    if not {*paper.benchmarks} & {*table.benchmarks}:
        has = ", ".join(paper.benchmarks)
        table.notes.append(f"nothing to compare: {paper.title} has {has}, none of which these runs have")
        return
    table.title += f", beside {paper.title[0].lower()}{paper.title[1:]}"
    printed = paper.cells.set_index(["method", "benchmark"])
    places = pd.MultiIndex.from_arrays([table.cells["method"].map(table.method), table.cells["benchmark"]])
    for column in ("last", "best"):
        table.cells[f"paper_{column}"] = printed[column].reindex(places).to_numpy()
        table.cells[f"difference_{column}"] = table.cells[column] - table.cells[f"paper_{column}"]
    configs = [run.config | {"judge": run.judge} for runs in table.rows.values() for run in runs if run.config]
    for key, setting in paper.setup.items():
        values = {PurePath(str(value)).name for config in configs if (value := value_at(config, key)) is not None}
        if other := [value for value in sorted(values) if value.lower() != str(setting).lower()]:
            table.notes.append(f"the paper's {key} is {setting}, here it is {', '.join(other)}")
    table.notes.extend(paper.notes)
