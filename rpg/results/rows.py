"""The rows of the paper's tables of results, and the lines of its figures of ablations, with their launch scripts."""

from dataclasses import dataclass
from typing import Literal

from rpg.diagnostics import did_you_mean
from rpg.registry.methods import FIGURES, ROWS, TABLES, script_of
from rpg.results.messages import ResultsError
from rpg.results.table import Table, paper_table

Profile = Literal["gpu", "cpu"]


@dataclass(frozen=True)
class Row:
    """A row of a table, or line of a figure. method: the paper's name; printed: whether the paper has it."""

    table: int | str
    method: str
    printed: bool

    def name(self, profile: Profile = "gpu") -> str:
        """Return the name of the run, for GPUs or the toy task."""
        return script_of(self.method, self.table, "cpu" if profile == "cpu" else "")


def title(table: int | str) -> str:
    """Return "table 8" or "figure8"."""
    return table if isinstance(table, str) else f"table {table}"


def paper(table: int | str) -> Table | None:
    """Return the paper's table; None for a figure, whose numbers are not printed. Raises ResultsError for another."""
    if isinstance(table, int):
        return paper_table(table)
    if table not in FIGURES:
        raise ResultsError(f"{table}: tables of results and figures of ablations are {', '.join(map(str, TABLES))}")
    return None


def rows_of(table: int | str) -> list[Row]:
    """Return the rows of a table in the paper's order, then additional ones; of a figure its lines."""
    in_print = paper(table)
    printed = list(in_print.rows if in_print else FIGURES[table])
    beside = [method.label for method in ROWS if method.beside and in_print]
    return [*(Row(table, label, True) for label in printed), *(Row(table, label, False) for label in beside)]


def choose(rows: list[Row], methods: list[str]) -> list[Row]:
    """Return the rows of these methods (any case; `paper`, `all`), in their order; raises ResultsError."""
    wanted = {method.lower() for method in methods}
    known = [*(row.method for row in rows), "paper", "all"]
    for asked in wanted - {name.lower() for name in known}:
        near = did_you_mean(asked.upper(), known)
        raise ResultsError(f"--methods {asked}: no row of {title(rows[0].table)}; {near} There are {', '.join(known)}")
    return [row for row in rows if {"all", row.method.lower(), "paper" if row.printed else "all"} & wanted]
