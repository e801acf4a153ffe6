"""`rpg table`: Last and Best of runs in the paper's form, beside the paper's numbers; the formats of a table."""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import jinja2
from rich.console import Console
from rich.markdown import Markdown

from rpg.methods.labels import family
from rpg.results.runs import is_accuracy, load_runs
from rpg.results.settings import ResultsError, exit_code, printable, refusing, show_notes
from rpg.results.table import Table, build_table, paper_table

LEGEND = "◆ RPG-REINFORCE, ◇ RPG; bold: best of a column, underlined: second, where the lead exceeds its noise"
MARKS = {"RPG-REINFORCE": "◆ ", "RPG": "◇ ", "baseline": ""}
MD_SPECIAL = str.maketrans({"&": "&amp;", "<": "&lt;", "|": "&#124;", "$": r"\$"})


def escape_md(text: str) -> str:
    """Escape HTML, cell borders, mathematics, links and pictures."""
    return printable(text).translate(MD_SPECIAL).replace("](", "]&#40;")


class Style(NamedTuple):
    """How a format marks the best and the second value of a column; {} stands for the number."""

    best: str
    second: str


MD = Style("**{}**", "<u>{}</u>")
HTML = Style("<b>{}</b>", "<u>{}</u>")
MISSING = "–"


class Line(NamedTuple):
    """A line of the table: a row of ours, or (comparison) the paper's values or the difference below it."""

    label: str
    values: list[str]
    family: str
    comparison: bool = False


def table_lines(table: Table, style: Style) -> Iterator[Line]:
    """The lines of the table, with their values formatted."""
    cells = {(cell["method"], cell["benchmark"]): cell for cell in table.records()}
    places = [(name, column) for name in table.benchmarks for column in ("last", "best")]
    for label in table.rows:
        own = [(cells.get((label, name)), column) for name, column in places]
        kind = family(table.method(label))
        yield Line(label, [_value(cell, column, style) for cell, column in own], kind)
        if any(cell and cell["paper_last"] is not None for cell, _ in own):
            for name, form in (("paper", "{:.4f}"), ("difference", "{:+.4f}")):
                values = [cell and cell[f"{name}_{column}"] for cell, column in own]
                shown = [MISSING if value is None else form.format(value) for value in values]
                yield Line(name, shown, kind, comparison=True)


def _value(cell: dict[str, Any] | None, column: str, style: Style) -> str:
    """One entry with its rank, standard error and interval."""
    if cell is None:
        return MISSING
    error = cell[f"{column}_se"]
    rank = cell[f"rank_{column}"] if cell[f"clear_{column}"] else 0
    text = {1: style.best, 2: style.second}.get(rank, "{}").format(f"{cell[column]:.4f}")
    text += f" ± {error:.4f}" if error is not None else ""
    if column == "last" and cell["last_low"] is not None:
        text += f" [{cell['last_low']:.2f}, {cell['last_high']:.2f}]"
    return text


def explanations(table: Table) -> list[str]:
    """The meaning of the signs that a table has."""
    cells, texts = table.records(), []
    if any(cell["last_low"] is not None for cell in cells):
        texts.append("brackets: 95% interval over problems (bootstrap)")
    if any(cell["last_se"] is not None for cell in cells):
        texts.append("±: standard error over seeds")
    return texts + ([f"judge: {', '.join(table.judges)}"] if table.judges else [])


def pass_at_k(table: Table) -> tuple[list[str], list[tuple[str, str, list[str]]]]:
    """The pass@k columns of a table; and label, benchmark and values of each row that has any."""
    names = sorted((name for name in table.cells if name.startswith("pass@")), key=lambda name: int(name[5:]))
    entries = []
    for cell in table.records():
        values = [cell[name] for name in names]
        if any(value is not None for value in values):
            shown = [MISSING if value is None else f"{value:.4f}" for value in values]
            entries.append((cell["method"], cell["benchmark"], shown))
    return names, entries


def environment(**options: Any) -> jinja2.Environment:
    """Jinja for the templates of this package; undefined names are errors."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("rpg.results", "."), undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, **options,
    )  # fmt: skip
    made.globals |= {"lines": table_lines, "explanations": explanations, "marks": MARKS}
    made.globals |= {"pass_at_k": pass_at_k, "family": family, "legend": LEGEND}
    made.filters["md"] = escape_md
    return made


def markdown(table: Table) -> str:
    """The table as markdown, its notes below as a list."""
    return environment().get_template("table.md.jinja").render(table=table, style=MD)


def comma_separated(table: Table) -> str:
    """`Table.cells`, a line for each row and benchmark; without the notes."""
    return table.cells.to_csv(index=False, lineterminator="\n")


def as_json(table: Table) -> str:
    """Title, `Table.cells`, notes, and the runs of each row."""
    rows = table.records()
    made_of = {label: [str(run.path) for run in runs] for label, runs in table.rows.items() if runs}
    return json.dumps({"title": table.title, "rows": rows, "notes": table.notes, "runs": made_of}, indent=2) + "\n"


def terminal(table: Table) -> str:
    """The markdown as rich renders it for this terminal; wider than it if the table is, so that no value is broken."""
    text, console = markdown(table), Console()
    console.width = max(console.width, *(len(line) for line in text.splitlines() if line.startswith("|")))
    with console.capture() as capture:
        console.print(Markdown(text))
    return capture.get()


FORMATS: dict[str, Callable[[Table], str]] = {
    "terminal": terminal, "md": markdown, "csv": comma_separated, "json": as_json,
}  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg table`."""
    help_text = "run directory, a folder of them or a metrics.jsonl"
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help=help_text)
    parser.add_argument("--paper", type=int, metavar="N", help="the paper's table N: alone, or beside the runs")
    default = "terminal" if sys.stdout.isatty() else "md"
    parser.add_argument("--format", choices=FORMATS, default=default, help="default: md, rendered in a terminal")
    parser.add_argument("--json", dest="format", action="store_const", const="json", help="short for --format json")


@refusing
def run(args: argparse.Namespace) -> int:
    """Print the table. Returns 1 if input was left out, 2 if there is nothing to show."""
    notes: list[str] = []
    if not args.runs and args.paper is None:
        raise ResultsError("give RUN..., or --paper N for the paper's own table")
    paper = None if args.paper is None else paper_table(args.paper)
    table = build_table(load_runs(args.runs, notes, is_accuracy), notes, paper) if args.runs or not paper else paper
    print(FORMATS[args.format](table), end="")
    return show_notes(table.notes) if args.format == "csv" else exit_code(table.notes)  # CSV has no place for notes
