"""Formats of a table: markdown, terminal, CSV and JSON."""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar

import rich.table
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import Markdown, TableElement
from rich.measure import Measurement
from rich.theme import Theme

from rpg.diagnostics import printable
from rpg.registry.labels import family
from rpg.results.messages import merged, shortened
from rpg.results.table import Table

LEGEND = "◆ RPG-REINFORCE, ◇ RPG; bold: best of a column, underlined: second, where the lead exceeds its noise"
EXPLANATIONS = {  # column of a table: legend of its sign
    "last_low": "brackets: 95% interval over problems (bootstrap)",
    "last_se": "±: standard error over seeds",
}
MARKS = {"RPG-REINFORCE": "◆ ", "RPG": "◇ ", "baseline": ""}
MD_SPECIAL = str.maketrans({"&": "&amp;", "<": "&lt;", "|": "&#124;", "$": r"\$", "*": r"\*"})
MISSING = "–"
# of a terminal: notes, so that the table stays on its screen; characters of a label, and of a benchmark in a heading
MOST_NOTES, LABEL, HEADING, LONG_HEADING = 5, 78, 16, 24
NARROWEST, UNLIMITED = 24, 10_000  # characters of the labels' column in a narrow terminal; of no terminal


def escape_md(text: str) -> str:
    """Escape HTML, cell borders, mathematics, emphasis, links and pictures."""
    return printable(text).translate(MD_SPECIAL).replace("](", "]&#40;")


def markdown(table: Table, brief: bool = False) -> str:
    """Return the table as markdown, with the paper's values below each row and the notes as a list.

    brief: for a terminal, with short labels and headings and MOST_NOTES, those on what was left out first.
    """
    cells = {(cell["method"], cell["benchmark"]): cell for cell in table.records()}
    places = [(name, column) for name in table.benchmarks for column in ("last", "best")]
    rows, pass_rows = [], []
    powers = [name for name in table.cells if name.startswith("pass@")]
    labels = shortened(table.rows, LABEL if brief else UNLIMITED)
    for label in table.rows:
        shown = MARKS[family(table.method(label))] + escape_md(labels[label])
        pairs = [(cells.get((label, name), {}), column) for name, column in places]
        rows.append([shown, *(_value(cell, column) for cell, column in pairs)])
        if any(cell.get("paper_last") is not None for cell, _ in pairs):
            for name, form in (("paper", "{:.4f}"), ("difference", "{:+.4f}")):
                rows.append([f"&emsp;{name}", *(_number(cell.get(f"{name}_{column}"), form) for cell, column in pairs)])
        for name in table.benchmarks:
            values = [cells.get((label, name), {}).get(power) for power in powers]
            if any(value is not None for value in values):
                pass_rows.append([shown, escape_md(name), *map(_number, values)])
    width = (HEADING if len(table.benchmarks) > 1 else LONG_HEADING) if brief else UNLIMITED
    short = shortened(table.benchmarks, width)
    heads = [f"{escape_md(short[name])} {column.capitalize()}" for name, column in places]
    legend = [text for key, text in EXPLANATIONS.items() if any(cell[key] is not None for cell in cells.values())]
    if table.judges:
        legend.append(f"judge: {escape_md(', '.join(table.judges))}")
    parts = [[f"**{escape_md(table.title)}**"], grid(["Method", *heads], rows), [f"{'; '.join([LEGEND, *legend])}."]]
    if pass_rows:
        parts.append(["pass@k at the last validation (unbiased estimate)"])
        parts.append(grid(["Method", "Benchmark", *powers], pass_rows, texts=2))
    texts = merged(table.notes)
    most = MOST_NOTES if brief else len(texts)
    more = [f"{len(texts) - most} more notes: --format md"] if len(texts) > most else []
    parts.append([f"- {escape_md(text)}" for text in [*texts[:most], *more]])
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def grid(head: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> list[str]:
    """Return the lines of a markdown table; columns from the `texts`-th on are numbers and aligned to the right."""
    rule = [":--" if column < texts else "--:" for column in range(len(head))]
    return [f"| {' | '.join(cells)} |" for cells in (head, rule, *rows)]


def _number(value: float | None, form: str = "{:.4f}") -> str:
    return MISSING if value is None else form.format(value)


def _value(cell: dict[str, Any], column: str) -> str:
    """Return one entry with its rank, standard error and interval."""
    if not cell:
        return MISSING
    rank = cell[f"rank_{column}"] if cell[f"clear_{column}"] else 0
    text = {1: "**{:.4f}**", 2: "<u>{:.4f}</u>"}.get(rank, "{:.4f}").format(cell[column])
    if (error := cell[f"{column}_se"]) is not None:
        text += f" ± {error:.4f}"
    if column == "last" and cell["last_low"] is not None:
        text += f" [{cell['last_low']:.2f}, {cell['last_high']:.2f}]"
    return text


def comma_separated(table: Table) -> str:
    """Return `Table.cells` as CSV, one line per row and benchmark, without notes."""
    return table.cells.to_csv(index=False, lineterminator="\n")


def as_json(table: Table) -> str:
    """Return title, `Table.cells`, notes and the runs of each row as JSON."""
    rows, notes = table.records(), [note.text for note in table.notes]
    made_of = {label: [str(run.path) for run in runs] for label, runs in table.rows.items() if runs}
    return json.dumps({"title": table.title, "rows": rows, "notes": notes, "runs": made_of}, indent=2) + "\n"


class _FittingTable(TableElement):
    """A table of markdown in a narrow terminal: headings and labels fold, and no number is cropped."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        [table] = super().__rich_console__(console, options)
        assert isinstance(table, rich.table.Table)
        if Measurement.get(console, options.update(width=UNLIMITED), table).maximum <= options.max_width:
            yield table
            return
        label, *numbers = table.columns
        taken = 2  # outer space; a column is followed by two
        for column in numbers:
            column.width = max(map(cell_len, [*str(column.header).split(), *map(str, column.cells)]))
            taken += column.width + 2
        label.width, label.overflow = max(options.max_width - taken, NARROWEST), "fold"
        yield from console.render(table, options.update(width=taken + label.width))


class _Markdown(Markdown):
    elements: ClassVar = {**Markdown.elements, "table_open": _FittingTable}


def terminal(table: Table) -> str:
    """Return the markdown rendered by rich."""
    console = Console(theme=Theme({"markdown.em": "underline"}))
    with console.capture() as capture:
        console.print(_Markdown(markdown(table, brief=True).replace("<u>", "*").replace("</u>", "*")), crop=False)
    return capture.get()


FORMATS: dict[str, Callable[[Table], str]] = {
    "terminal": terminal, "md": markdown, "csv": comma_separated, "json": as_json,
}  # fmt: skip


def default() -> str:
    """Return the format for standard output: terminal in one, else markdown."""
    return "terminal" if sys.stdout.isatty() else "md"


def show(table: Table) -> None:
    """Print the table."""
    print(FORMATS[default()](table), end="")
