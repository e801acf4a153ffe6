"""Formats of a table: markdown, terminal, CSV and JSON."""

import json
import sys
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import rich.table
from rich.console import Console
from rich.text import Text

from rpg.diagnostics import printable
from rpg.registry.methods import family
from rpg.results.messages import LeftOut
from rpg.results.table import Table

LEGEND = "◆ RPG-REINFORCE, ◇ RPG; bold: best of a column, underlined: second, where the lead exceeds its noise"
EXPLANATIONS = {  # column of a table: legend of its sign
    "before": "before: accuracy of the initial model",
    "last_low": "brackets: 95% interval over problems (bootstrap)",
    "last_se": "±: standard error over seeds",
}
MARKS = {"RPG-REINFORCE": "◆ ", "RPG": "◇ ", "baseline": ""}
MD_SPECIAL = str.maketrans({"&": "&amp;", "<": "&lt;", "|": "&#124;", "$": r"\$", "*": r"\*"})
MISSING = "–"
MOST_NOTES = 5  # of a terminal, so that the table stays on its screen
MARKDOWN, ANSI = ("{}", "**{}**", "<u>{}</u>"), ("{}", "\x1b[1m{}\x1b[0m", "\x1b[4m{}\x1b[0m")  # plain, first, second
PASS_TITLE = "pass@k at the last validation (unbiased estimate)"


def escape_md(text: str) -> str:
    """Escape HTML, cell borders, mathematics, emphasis, links and pictures."""
    return printable(text).translate(MD_SPECIAL).replace("](", "]&#40;")


def _entries(table: Table, ranks: Sequence[str]) -> tuple[list[str], dict[str, dict[str, list[list[str]]]]]:
    """Return the columns of a benchmark, and label -> benchmark -> lines of entries: ours, the paper's, difference."""
    columns = [*(["before"] if table.cells["before"].notna().any() else []), "last", "best"]
    rows: dict[str, dict[str, list[list[str]]]] = {label: {} for label in table.rows}
    for cell in table.records():
        lines = [[_value(cell, column, ranks) for column in columns]]
        for name, form in (("paper", "{:.4f}"), ("difference", "{:+.4f}")) if cell["paper_last"] is not None else ():
            lines.append([_number(cell.get(f"{name}_{column}"), form) for column in columns])
        rows[cell["method"]][cell["benchmark"]] = lines
    return columns, rows


def _value(cell: dict[str, Any], column: str, ranks: Sequence[str]) -> str:
    """Return one entry with its rank, standard error and interval."""
    rank = cell.get(f"rank_{column}") if cell.get(f"clear_{column}") else None
    text = ranks[rank or 0].format(_number(cell[column]))
    if (error := cell.get(f"{column}_se")) is not None:
        text += f" ± {error:.4f}"
    if column == "last" and cell["last_low"] is not None:
        text += f" [{cell['last_low']:.2f}, {cell['last_high']:.2f}]"
    return text


def _number(value: float | None, form: str = "{:.4f}") -> str:
    return MISSING if value is None else form.format(value)


def _label(table: Table, label: str) -> str:
    return MARKS[family(table.method(label))] + label


def _legend(table: Table) -> str:
    signs = [text for key, text in EXPLANATIONS.items() if table.cells[key].notna().any()]
    return "; ".join([LEGEND, *signs, *([f"judge: {', '.join(table.judges)}"] if table.judges else [])]) + "."


def _pass_rows(table: Table) -> list[list[str]]:
    """Return heading and rows of the table of pass@k; [] without samples."""
    powers = [name for name in table.cells if name.startswith("pass@")]
    rows = [[_label(table, cell["method"]), cell["benchmark"], *(_number(cell[name]) for name in powers)]
            for cell in table.records() if any(cell[name] is not None for name in powers)]  # fmt: skip
    return [["Method", "Benchmark", *powers], *rows] if rows else []


def markdown(table: Table) -> str:
    """Return the table as markdown, with the paper's values below each row and the notes as a list."""
    columns, rows = _entries(table, MARKDOWN)
    missing, lines = [MISSING] * len(columns), []
    for label, of_row in rows.items():
        heads = [escape_md(_label(table, label)), "&emsp;paper", "&emsp;difference"]
        for number, head in enumerate(heads[: max(map(len, of_row.values()), default=1)]):
            own = [of_row.get(name, [])[number : number + 1] or [missing] for name in table.benchmarks]
            lines.append([head, *(entry for [entries] in own for entry in entries)])
    heads = [f"{escape_md(name)} {column.capitalize()}" for name in table.benchmarks for column in columns]
    parts = [[f"**{escape_md(table.title)}**"], grid(["Method", *heads], lines), [escape_md(_legend(table))]]
    if pass_rows := [[*map(escape_md, row)] for row in _pass_rows(table)]:
        parts += [[PASS_TITLE], grid(pass_rows[0], pass_rows[1:], texts=2)]
    parts.append([f"- {escape_md(note)}" for note in dict.fromkeys(table.notes)])
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def grid(head: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> list[str]:
    """Return the lines of a markdown table; columns from the `texts`-th on are numbers and aligned to the right."""
    rule = [":--" if column < texts else "--:" for column in range(len(head))]
    return [f"| {' | '.join(cells)} |" for cells in (head, rule, *rows)]


def terminal(table: Table) -> str:
    """Return the table for a terminal of any width: a row per method, and in it a line per benchmark."""
    console, rows = Console(highlight=False, markup=False, emoji=False), []
    columns, entries = _entries(table, ANSI)
    for label, of_row in entries.items():
        lines = []
        for name, of_benchmark in of_row.items():
            heads = (printable(name), "  paper", "  difference")
            lines += [[head, *own] for head, own in zip(heads, of_benchmark, strict=False)]
        rows.append([_label(table, label), *("\n".join(entry) for entry in zip(*lines, strict=True))])
    notes = sorted(dict.fromkeys(table.notes), key=lambda note: not isinstance(note, LeftOut))
    more = [f"{len(notes) - MOST_NOTES} more notes: --format md"] if len(notes) > MOST_NOTES else []
    with console.capture() as capture:
        console.print(Text(printable(table.title), style="bold"))
        console.print(screen(["Method", "Benchmark", *(column.capitalize() for column in columns)], rows, 2))
        if pass_rows := _pass_rows(table):
            console.print(f"\n{PASS_TITLE}", screen(pass_rows[0], pass_rows[1:], 2), sep="\n")
        console.print()
        for text in (_legend(table), *(f"- {printable(note)}" for note in [*notes[:MOST_NOTES], *more])):
            console.print(textwrap.fill(text, console.width, subsequent_indent="  ", break_on_hyphens=False,
                                        break_long_words=False))  # fmt: skip
    return capture.get()


def screen(head: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> rich.table.Table:
    """Return a table of a terminal, whose first `texts` columns take several lines where it is narrow.

    Words that are longer than their column end in an ellipsis.
    """
    made = rich.table.Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    for number, name in enumerate(head):
        is_text = number < texts
        made.add_column(name, overflow="ellipsis", justify="left" if is_text else "right", no_wrap=not is_text)
    for first, *others in rows:
        made.add_row(Text(printable(first)), *map(Text.from_ansi, others))
    return made


def comma_separated(table: Table) -> str:
    """Return `Table.cells` as CSV, one line per row and benchmark, without notes."""
    return table.cells.to_csv(index=False, lineterminator="\n")


def as_json(table: Table) -> str:
    """Return title, `Table.cells`, notes and the runs of each row as JSON."""
    made_of = {label: [str(run.directory) for run in runs] for label, runs in table.rows.items() if runs}
    content = {"title": table.title, "rows": table.records(), "notes": table.notes, "runs": made_of}
    return json.dumps(content, indent=2) + "\n"


FORMATS: dict[str, Callable[[Table], str]] = {
    "terminal": terminal, "md": markdown, "csv": comma_separated, "json": as_json,
}  # fmt: skip


def default() -> str:
    """Return the format for standard output: terminal in one, else markdown."""
    return "terminal" if sys.stdout.isatty() else "md"


def show(table: Table) -> None:
    """Print the table."""
    print(FORMATS[default()](table), end="")
