#!/usr/bin/env python3
"""The paper's tables in recipe/rpg/README.md: each row with its script and its printed numbers.

Made of rpg/results/launch_rows.csv, by which `rpg reproduce` goes, and rpg/results/paper_tables.csv.

python scripts/list_rows.py [--into recipe/rpg/README.md]
"""

import argparse
from pathlib import Path

from rpg.results.paper import ERRATA, paper_table
from rpg.results.rows import FILES, rows_of

BEGIN = "<!-- made by: python scripts/list_rows.py --into recipe/rpg/README.md -->\n"
END = "<!-- end -->\n"
TABLES = (3, 5, 7, 6, 8)


def section(number: int) -> str:
    """The rows of one table."""
    table = paper_table(number)
    printed = {row.method: row.cells for row in table.rows}
    title = table.title.partition(": ")[2]
    lines = [f"### {title} (Table {number})"]
    if own := [FILES[name] for name in table.benchmarks if name in FILES]:
        files = ",".join(f"data/{name}" for name in own)
        lines.append(f'Validated on other sets: `rpg reproduce` names them; by hand `TEST_FILE="[{files}]"`.\n')
    lines += [f"| method | script | {' | '.join(table.benchmarks)} |", "|" + "---|" * (2 + len(table.benchmarks))]
    for row in rows_of(number):
        if row.printed:
            numbers = [printed[row.method][name] for name in table.benchmarks]
            cells = [f"{cell.last:.4f} / {cell.best:.4f}" for cell in numbers]
            lines.append(f"| {row.method} | `{row.gpu}` | {' | '.join(cells)} |")
    wrong = [f"{method} on {name}: {said}." for (at, method, name), said in ERRATA.items() if at == number]
    return "\n".join([*lines, *([""] if wrong else []), *wrong, "", ""])


def listing() -> str:
    """All tables, and between which lines they stand."""
    return BEGIN + "\n".join(section(number).rstrip("\n") + "\n" for number in TABLES) + END


def put_into(text: str) -> str:
    """A page with the tables in their place."""
    before, rest = text.split(BEGIN)
    return before + listing() + rest.split(END)[1]


def main() -> None:
    """Print the tables, or write them into a page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--into", type=Path)
    into = parser.parse_args().into
    if into:
        into.write_text(put_into(into.read_text()))
    else:
        print(listing(), end="")


if __name__ == "__main__":
    main()
