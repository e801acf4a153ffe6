"""A Table as text: markdown, CSV, LaTeX or JSON; names are escaped in each, so that none is markup."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import jinja2
import pandas as pd

from rpg.methods.labels import family
from rpg.results.table import Cell, Row, Table

COLUMNS = ("last", "best")
MARKS = {"RPG-REINFORCE": "◆ ", "RPG": "◇ ", "baseline": ""}
MD_SPECIAL = str.maketrans({"&": "&amp;", "<": "&lt;", "|": "&#124;", "$": r"\$"})
TEX_SPECIAL = str.maketrans(
    {
        "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "^": r"\textasciicircum{}", "~": r"\textasciitilde{}",
        "<": r"\textless{}", ">": r"\textgreater{}", "|": r"\textbar{}", "–": "--", "±": r"$\pm$",
        "[": "{[}", "*": "{*}",  # at the beginning of a row they would be the argument of the \\ before it
        **{letter: f"\\{letter}" for letter in "&%_#$"},
    }
)  # fmt: skip


def printable(text: str) -> str:
    """The text in one line: line ends, terminal escapes and whatever else does not print, as Python escapes."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def escape_md(text: str) -> str:
    """No HTML, cell border, mathematics, link or picture."""
    return printable(text).translate(MD_SPECIAL).replace("](", "]&#40;")


def escape_tex(text: str) -> str:
    """No command, group or mathematics."""
    return printable(text).translate(TEX_SPECIAL)


def escape_csv(value: Any) -> Any:
    """No formula: spreadsheets take a quotation mark in front as "this is text"."""
    if not isinstance(value, str):
        return value
    text = printable(value)
    return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text


@dataclass(frozen=True)
class Style:
    """How a format sets the values of a table; {} stands for the number."""

    best: str
    second: str
    error: str = " ± {:.4f}"
    interval: str = " [{:.2f}, {:.2f}]"
    impossible: str = " (!)"
    missing: str = "–"


MD = Style("**{}**", "<u>{}</u>")
HTML = Style("<b>{}</b>", "<u>{}</u>")
TEX = Style(
    r"\textbf{{{}}}", r"\underline{{{}}}", r" $\pm$ {:.4f}", r" {{\scriptsize [{:.2f}, {:.2f}]}}", r"$^{!}$", "--"
)  # fmt: skip


class Line(NamedTuple):
    """A line of the table: a row of ours, or (comparison) the paper's values or the difference below it."""

    label: str
    values: list[str]
    family: str
    comparison: bool = False


def table_lines(table: Table, style: Style) -> Iterator[Line]:
    """The lines of the table, values set in a style."""
    for row in table.rows:
        values = [_value(table, row, name, column, style) for name in table.benchmarks for column in COLUMNS]
        yield Line(row.label, values, family(row.method))
        if row.method not in table.paper:
            continue
        printed, differences = [], []
        for name in table.benchmarks:
            ours, theirs = row.cells.get(name), table.paper[row.method].cells.get(name)
            for column in COLUMNS:
                known = f"{getattr(theirs, column):.4f}" if theirs else style.missing
                printed.append(known + (style.impossible if theirs and theirs.impossible else ""))
                both = ours and theirs
                differences.append(f"{getattr(ours, column) - getattr(theirs, column):+.4f}" if both else style.missing)
        yield Line("paper", printed, family(row.method), comparison=True)
        yield Line("difference", differences, family(row.method), comparison=True)


def _value(table: Table, row: Row, benchmark: str, column: str, style: Style) -> str:
    """One entry with its rank, standard error and interval."""
    cell = row.cells.get(benchmark)
    if cell is None:
        return style.missing
    rank = table.rank(row, benchmark, column)
    text = {1: style.best, 2: style.second}.get(rank or 0, "{}").format(f"{getattr(cell, column):.4f}")
    error = getattr(cell, f"{column}_se")
    text += style.error.format(error) if error is not None else ""
    text += style.interval.format(*cell.interval) if column == "last" and cell.interval else ""
    return text + (style.impossible if cell.impossible else "")


def explanations(table: Table) -> list[str]:
    """What the signs in a table mean, as far as it has them."""
    cells = [cell for row in table.rows for cell in row.cells.values()]
    said = []
    if any(cell.interval for cell in cells):
        said.append("brackets: 95% interval over problems (bootstrap)")
    if any(cell.last_se is not None for cell in cells):
        said.append("±: standard error over seeds")
    return said + ([f"judge: {', '.join(table.judges)}"] if table.judges else [])


def all_notes(table: Table) -> list[str]:
    """The table's notes, and one for each entry whose Last is above its Best."""
    return table.notes + [
        f"(!) {row.label}, {name}: Last above Best, which cannot be ({cell.last:.4f} > {cell.best:.4f})"
        for row in table.rows
        for name, cell in row.cells.items()
        if cell.impossible
    ]


def records(table: Table) -> list[dict[str, Any]]:
    """One record for each row and benchmark, with everything that is known of it."""
    return [
        _record(table, row, name, row.cells[name])
        for row in table.rows
        for name in table.benchmarks
        if name in row.cells
    ]


def _record(table: Table, row: Row, benchmark: str, cell: Cell) -> dict[str, Any]:
    paper = table.paper[row.method].cells.get(benchmark) if row.method in table.paper else None
    low, high = cell.interval or (None, None)
    return {
        "method": row.label,
        "benchmark": benchmark,
        "last": cell.last,
        "best": cell.best,
        "rank_last": table.rank(row, benchmark, "last"),
        "rank_best": table.rank(row, benchmark, "best"),
        "judge": row.judge,
        "runs": max(1, len(row.runs)),
        "last_se": cell.last_se,
        "best_se": cell.best_se,
        "last_low": low,
        "last_high": high,
        "impossible": cell.impossible,
        "paper_last": paper.last if paper else None,
        "paper_best": paper.best if paper else None,
        "difference_last": cell.last - paper.last if paper else None,
        "difference_best": cell.best - paper.best if paper else None,
        "pass_at": {str(k): value for k, value in cell.pass_at.items()},
    }


def comma_separated(table: Table) -> str:
    """One line for each row and benchmark; pass@k in columns of their own. Notes are left to the other formats."""
    found = records(table)
    for record in found:
        record |= {f"pass@{k}": value for k, value in record.pop("pass_at").items()}
    data = pd.DataFrame(found, dtype=object) if found else pd.DataFrame(columns=["method", "benchmark"])
    data = data.astype(dict.fromkeys({"rank_last", "rank_best"} & set(data), "Int64"))
    return data.map(escape_csv).to_csv(index=False, lineterminator="\n")


def as_json(table: Table) -> str:
    """Title, records, notes, and which runs made each row."""
    made_of = {row.label: [str(run.path) for run in row.runs] for row in table.rows if row.runs}
    content = {"title": table.title, "rows": records(table), "notes": all_notes(table), "runs": made_of}
    return json.dumps(content, indent=2) + "\n"


def pass_at_k(table: Table) -> tuple[list[int], list[tuple[Row, str, list[str]]]]:
    """The k's of pass@k in a table; and row, benchmark and values of each entry that has any."""
    cells = [(row, name, cell.pass_at) for row in table.rows for name, cell in row.cells.items() if cell.pass_at]
    ks = sorted({k for _, _, values in cells for k in values})
    return ks, [(row, name, [f"{values[k]:.4f}" if k in values else "–" for k in ks]) for row, name, values in cells]


def environment(**options: Any) -> jinja2.Environment:
    """Jinja over this room's templates; undefined names are errors."""
    made = jinja2.Environment(
        loader=jinja2.PackageLoader("rpg.results", "."), undefined=jinja2.StrictUndefined,
        trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True, **options,
    )  # fmt: skip
    made.globals |= {"lines": table_lines, "notes": all_notes, "explanations": explanations, "marks": MARKS}
    made.globals |= {"pass_at_k": pass_at_k, "family": family, "COLUMNS": COLUMNS}
    made.filters |= {"md": escape_md, "tex": escape_tex, "printable": printable}
    return made


def markdown(table: Table) -> str:
    """The table as markdown, its notes below as a list."""
    return environment().get_template("table.md.jinja").render(table=table, style=MD)


def latex(table: Table) -> str:
    """A booktabs table; needs the packages booktabs, multirow and colortbl (xcolor with option table)."""
    delimiters = {"variable_start_string": "<<", "variable_end_string": ">>"}
    return environment(**delimiters).get_template("table.tex.jinja").render(table=table, style=TEX)


FORMATS: dict[str, Callable[[Table], str]] = {"md": markdown, "csv": comma_separated, "tex": latex, "json": as_json}
