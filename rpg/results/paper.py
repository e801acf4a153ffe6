"""The paper's tables of results, as printed, and what cannot be right in them."""

import csv
from importlib import resources

from rpg.results.config import ResultsError
from rpg.results.table import Cell, Row, Table

# (table, method, benchmark) -> what is wrong; the numbers stay as printed. E11 is the list's number in
# docs/mathematics.md.
ERRATA = {
    (3, "RPG-URKL", "AIME25"): "erratum E11: Last 0.5261 is above Best 0.4938, which cannot be; kept as printed",
}


def paper_table(number: int) -> Table:
    """Table `number` of the paper: rows and columns in its order, values as printed.

    Raises:
        ResultsError: there is no such table of results; names those there are.
    """
    text = resources.files("rpg.results").joinpath("paper_tables.csv").read_text(encoding="utf-8")
    entries = list(csv.DictReader(text.splitlines()))
    chosen = [entry for entry in entries if int(entry["table"]) == number]
    if not chosen:
        known = ", ".join(sorted({entry["table"] for entry in entries}, key=int))
        raise ResultsError(f"table {number}: the paper has no such table of results; there are {known}")
    first = chosen[0]
    table = Table(f"Paper, table {number}: {first['model']}, {first['context']} context")
    rows: dict[str, Row] = {}
    for entry in chosen:
        method, benchmark = entry["method"], entry["benchmark"]
        if method not in rows:
            rows[method] = Row(method, method)
            table.rows.append(rows[method])
        rows[method].cells[benchmark] = Cell(float(entry["last"]), float(entry["best"]))
        if benchmark not in table.benchmarks:
            table.benchmarks.append(benchmark)
        if (number, method, benchmark) in ERRATA:
            table.notes.append(f"{method}, {benchmark}: {ERRATA[number, method, benchmark]}")
    return table
