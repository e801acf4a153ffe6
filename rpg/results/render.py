"""A Table as text: markdown, CSV, LaTeX or JSON."""

import csv
import io
import json
from collections.abc import Callable

from rpg.methods.labels import family
from rpg.results import escape
from rpg.results.table import Cell, Row, Table

COLUMNS = ("last", "best")
MARKS = {"RPG-REINFORCE": "◆ ", "RPG": "◇ ", "baseline": ""}
LEGEND = "◆ RPG-REINFORCE, ◇ RPG; bold: best of a column, underlined: second"
IMPOSSIBLE = "Last above Best, which cannot be"


def markdown(table: Table) -> str:
    """The table as markdown, its notes below as a list."""
    header = [
        "Method",
        *(f"{escape.markdown(name)} {column.title()}" for name in table.benchmarks for column in COLUMNS),
    ]
    lines = [f"**{escape.markdown(table.title)}**", "", _md(header), _md([":--", *["--:"] * (len(header) - 1)])]
    for row in table.rows:
        lines.append(_md([_md_label(row), *(value(table, row, b, c) for b in table.benchmarks for c in COLUMNS)]))
        if row.method in table.paper:
            for name, values in comparison(table, row):
                lines.append(_md([f"&emsp;{name}", *values]))
    explained = [LEGEND]
    if any(cell.interval for row in table.rows for cell in row.cells.values()):
        explained.append("brackets: 95% interval over problems (bootstrap)")
    if any(cell.last_se is not None for row in table.rows for cell in row.cells.values()):
        explained.append("±: standard error over seeds")
    explained += [escape.markdown(said) for said in judged(table)]
    lines += ["", "; ".join(explained) + "."]
    lines += _md_pass_at(table)
    notes = table.notes + impossible(table)
    if notes:
        lines += ["", *(f"- {escape.markdown(note)}" for note in notes)]
    return "\n".join(lines) + "\n"


def _md(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _md_label(row: Row) -> str:
    return MARKS[family(row.method)] + escape.markdown(row.label)


def value(table: Table, row: Row, benchmark: str, column: str, best: str = "**{}**") -> str:
    """One entry with rank, error and interval; best: how the best of a column is set, Markdown or HTML."""
    cell = row.cells.get(benchmark)
    if cell is None:
        return "–"
    text = f"{getattr(cell, column):.4f}"
    rank = table.rank(row, benchmark, column)
    text = {1: best.format(text), 2: f"<u>{text}</u>"}.get(rank or 0, text)
    error = getattr(cell, f"{column}_se")
    if error is not None:
        text += f" ± {error:.4f}"
    if column == "last" and cell.interval:
        text += f" [{cell.interval[0]:.2f}, {cell.interval[1]:.2f}]"
    return text + (" (!)" if cell.impossible else "")


def comparison(table: Table, row: Row) -> list[tuple[str, list[str]]]:
    """The paper's values and ours minus the paper's, column by column."""
    printed, difference = [], []
    for benchmark in table.benchmarks:
        theirs = table.paper[row.method].cells.get(benchmark)
        ours = row.cells.get(benchmark)
        for column in COLUMNS:
            printed.append(f"{getattr(theirs, column):.4f}" + (" (!)" if theirs.impossible else "") if theirs else "–")
            both = theirs and ours
            difference.append(f"{getattr(ours, column) - getattr(theirs, column):+.4f}" if both else "–")
    return [("paper", printed), ("difference", difference)]


def judged(table: Table) -> list[str]:
    """Who judged the runs of the table, as one remark; none for a table of the paper's."""
    return [f"judge: {', '.join(table.judges)}"] if table.judges else []


def impossible(table: Table) -> list[str]:
    """A note for every entry that cannot be."""
    return [
        f"(!) {row.label}, {benchmark}: {IMPOSSIBLE} ({cell.last:.4f} > {cell.best:.4f})"
        for row in table.rows
        for benchmark, cell in row.cells.items()
        if cell.impossible
    ]


def _md_pass_at(table: Table) -> list[str]:
    found = [(row, b, cell.pass_at) for row in table.rows for b, cell in row.cells.items() if cell.pass_at]
    if not found:
        return []
    ks = sorted({k for _, _, values in found for k in values})
    lines = ["", "pass@k at the last validation (unbiased estimate)", ""]
    lines += [_md(["Method", "Benchmark", *(f"pass@{k}" for k in ks)]), _md([":--", ":--", *["--:"] * len(ks)])]
    for row, benchmark, values in found:
        shown = [f"{values[k]:.4f}" if k in values else "–" for k in ks]
        lines.append(_md([_md_label(row), escape.markdown(benchmark), *shown]))
    return lines


def records(table: Table) -> list[dict]:
    """One record for each row and benchmark, with everything that is known of it."""
    return [_record(table, row, b, row.cells[b]) for row in table.rows for b in table.benchmarks if b in row.cells]


def _record(table: Table, row: Row, benchmark: str, cell: Cell) -> dict:
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
    ks = sorted({int(k) for record in found for k in record["pass_at"]})
    rows = [{**r, **{f"pass@{k}": r["pass_at"].get(str(k)) for k in ks}} for r in found]
    rows = [{k: escape.csv_field(v) if isinstance(v, str) else v for k, v in row.items()} for row in rows]
    names = [name for name in (rows[0] if rows else {"method": 0, "benchmark": 0}) if name != "pass_at"]
    out = io.StringIO()
    writer = csv.DictWriter(out, names, extrasaction="ignore", lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def as_json(table: Table) -> str:
    """Title, records, notes, and which runs made each row."""
    made_of = {row.label: [str(run.path) for run in row.runs] for row in table.rows if row.runs}
    content = {"title": table.title, "rows": records(table), "notes": table.notes + impossible(table), "runs": made_of}
    return json.dumps(content, indent=2) + "\n"


def latex(table: Table) -> str:
    """A booktabs table; needs the packages booktabs, multirow and colortbl (xcolor with option table)."""
    shades = {"RPG-REINFORCE": r"\rowcolor{blue!18} ", "RPG": r"\rowcolor{blue!8} ", "baseline": ""}
    names = table.benchmarks
    lines = [
        rf"\begin{{tabular}}{{l{'cc' * len(names)}}}",
        r"\toprule",
        "Method & " + " & ".join(rf"\multicolumn{{2}}{{c}}{{{escape.tex(name)}}}" for name in names) + r" \\",
        " & " + " & ".join("Last & Best" for _ in names) + r" \\",
        r"\midrule",
    ]
    for row in table.rows:
        values = [_tex_value(table, row, b, c) for b in names for c in COLUMNS]
        lines.append(shades[family(row.method)] + " & ".join([escape.tex(row.label), *values]) + r" \\")
        if row.method in table.paper:
            for name, shown in comparison(table, row):
                values = [rf"\textit{{{escape.tex(value)}}}" for value in shown]
                lines.append(" & ".join([rf"\quad\textit{{{name}}}", *values]) + r" \\")
    lines.append(r"\bottomrule")
    lines += [
        rf"\multicolumn{{{1 + 2 * len(names)}}}{{l}}{{\footnotesize {escape.tex(said)}}} \\" for said in judged(table)
    ]
    lines.append(r"\end{tabular}")
    lines += [f"% {escape.printable(note)}" for note in table.notes + impossible(table)]
    return "\n".join(lines) + "\n"


def _tex_value(table: Table, row: Row, benchmark: str, column: str) -> str:
    cell = row.cells.get(benchmark)
    if cell is None:
        return "--"
    text = f"{getattr(cell, column):.4f}"
    rank = table.rank(row, benchmark, column)
    text = {1: rf"\textbf{{{text}}}", 2: rf"\underline{{{text}}}"}.get(rank or 0, text)
    error = getattr(cell, f"{column}_se")
    if error is not None:
        text += rf" $\pm$ {error:.4f}"
    if column == "last" and cell.interval:
        text += f" {{\\scriptsize [{cell.interval[0]:.2f}, {cell.interval[1]:.2f}]}}"
    return text + (r"$^{!}$" if cell.impossible else "")


FORMATS: dict[str, Callable[[Table], str]] = {
    "md": markdown,
    "csv": comma_separated,
    "tex": latex,
    "json": as_json,
}
