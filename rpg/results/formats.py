"""Formats of a table: markdown, terminal, CSV and JSON."""

import math
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import pandas as pd
import rich.table
from rich.console import Console
from rich.text import Text

from rpg.results.runs import show_notes
from rpg.results.table import Table

LEGEND = "bold: best of a column, where its lead exceeds its noise; ±: standard error over seeds; (±): over problems."
MISSING = "–"
MARKDOWN, ANSI = ("{}", "**{}**"), ("{}", "\x1b[1m{}\x1b[0m")  # plain, bold
PASS_TITLE = "pass@k at the last validation (unbiased estimate)"


def accuracies(table: Table, styles: Sequence[str]) -> pd.DataFrame:
    """Return the texts of a table: Method, Benchmark, Before (if known), Last, Best."""
    columns = [*(["before"] if table.cells["before"].notna().any() else []), "last", "best"]
    lines = [[cell["method"], cell["benchmark"], *(_value(cell, column, styles) for column in columns)]
             for cell in table.cells.to_dict("records")]  # fmt: skip
    return pd.DataFrame(lines, columns=["Method", "Benchmark", *map(str.capitalize, columns)])


def _value(cell: dict[str, Any], column: str, styles: Sequence[str]) -> str:
    """Return one entry with its standard error."""
    text = styles[bool(cell.get(f"leads_{column}"))].format(_text(cell[column]))
    if cell.get(f"{column}_se", math.nan) >= 0:
        error = f"± {cell[f'{column}_se']:.4f}"
        text += f" {error}" if cell["runs"] > 1 else f" ({error})"
    return text


def _text(value: Any) -> str:
    return MISSING if pd.isna(value) else f"{value:.4f}"


def passes(table: Table) -> pd.DataFrame:
    """Return the texts of the table of pass@k; empty without samples."""
    powers = [name for name in table.cells if name.startswith("pass@")]
    cells = table.cells[table.cells[powers].notna().any(axis=1)]
    texts = cells[["method", "benchmark"]].join(cells[powers].map(_text))
    return texts.rename(columns={"method": "Method", "benchmark": "Benchmark"})


def markdown(table: Table) -> str:
    """Return the table as markdown, with a column for each benchmark, and the notes as a list."""
    long = accuracies(table, MARKDOWN)
    wide: Any = long.set_index(["Method", "Benchmark"]).unstack(fill_value=MISSING)
    columns = [(column, name) for name in table.benchmarks for column in long.columns[2:]]
    wide = wide.loc[long["Method"].unique(), columns].swaplevel(axis=1)
    parts = [[f"**{table.title}**"], grid(["Method", *map(" ".join, wide)], wide.reset_index().to_numpy()), [LEGEND]]
    if len(pass_rows := passes(table)):
        parts += [[PASS_TITLE], grid([*pass_rows], pass_rows.to_numpy(), texts=2)]
    parts.append([f"- {note}" for note in dict.fromkeys(table.notes)])
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def grid(head: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> list[str]:
    """Return the lines of a markdown table; columns from the `texts`-th on are numbers and aligned to the right."""
    rule = [":--" if column < texts else "--:" for column in range(len(head))]
    return [f"| {' | '.join(text.replace('|', '&#124;') for text in cells)} |" for cells in (head, rule, *rows)]


def terminal(table: Table) -> str:
    """Return the table for a terminal, a line for each benchmark."""
    console = Console(highlight=False, markup=False, emoji=False)
    with console.capture() as capture:
        console.print(Text(table.title, style="bold"))
        console.print(screen(accuracies(table, ANSI)))
        if len(pass_rows := passes(table)):
            console.print(f"\n{PASS_TITLE}", screen(pass_rows), sep="\n")
        console.print(f"\n{LEGEND}")
    return capture.get()


def screen(texts: pd.DataFrame, numbers: slice = slice(2, None)) -> rich.table.Table:
    """Return a table of a terminal, which folds where it is narrow. Its first column shows equal names once.

    `numbers` are aligned to the right.
    """
    made = rich.table.Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold")
    first, right = texts.columns[0], {*texts.columns[numbers]}
    for name in texts:
        made.add_column(name, overflow="fold", justify="right" if name in right else "left")
    for row in texts.assign(**{first: texts[first].mask(texts[first].duplicated(), "")}).to_numpy():
        made.add_row(*map(Text.from_ansi, row))
    return made


FORMATS: dict[str, Callable[[Table], str]] = {
    "terminal": terminal,
    "md": markdown,
    "csv": lambda table: table.cells.to_csv(index=False, lineterminator="\n"),
    "json": lambda table: table.cells.to_json(orient="records", indent=2) + "\n",
}


def show(table: Table, form: str = "") -> None:
    """Print the table in this format, by default terminal in one and else markdown, and its notes on stderr.

    Markdown has them itself.
    """
    form = form or ("terminal" if sys.stdout.isatty() else "md")
    print(FORMATS[form](table), end="", flush=True)
    show_notes(() if form == "md" else table.notes)
