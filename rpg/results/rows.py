"""Which launch script is which row of which table of the paper, by the table of methods (rpg/methods)."""

import difflib
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rpg.methods.names import table_script
from rpg.methods.table import ROWS
from rpg.results.config import ResultsError
from rpg.results.paper import paper_table

Profile = Literal["gpu", "cpu"]
RECIPE = Path(__file__).resolve().parents[2] / "recipe" / "rpg"
DATA = RECIPE.parents[1] / "data"
# Benchmarks that the scripts do not validate on by themselves: the files of data/ that hold them.
FILES = {"Minerva-Math": "minerva-math.parquet", "OlympiadBench": "olympiadbench.parquet"}


@dataclass(frozen=True)
class Row:
    """A row of a table: the paper's name of the method, and its script on GPUs and on the toy task, below recipe/rpg.

    printed: whether the paper's table has it.
    """

    table: int
    method: str
    gpu: str
    cpu: str
    printed: bool

    def script(self, profile: Profile) -> Path:
        """The launch script."""
        return RECIPE / (self.gpu if profile == "gpu" else self.cpu)

    def name(self, profile: Profile) -> str:
        """What the launch script calls its run."""
        return self.script(profile).stem.removeprefix("run_")


def rows_of(table: int) -> list[Row]:
    """The rows of a table in the paper's order, then those beside it.

    Raises:
        ResultsError: the paper has no such table of results.
    """
    printed = [row.method for row in paper_table(table).rows]
    beside = [method.label for method in ROWS if method.beside]
    return [
        Row(table, label, table_script(label, table), table_script(label, table, "cpu"), label in printed)
        for label in [*printed, *beside]
    ]


def choose(rows: list[Row], methods: list[str]) -> list[Row]:
    """The rows that are asked for, in their own order: by method, whatever its case; `paper`, `all`.

    Raises:
        ResultsError: a method that is none of theirs; names the nearest.
    """
    known = {row.method.lower(): row for row in rows}
    chosen: set[str] = set()
    for method in methods:
        if method.lower() in ("paper", "all"):
            chosen |= {row.method for row in rows if row.printed or method.lower() == "all"}
        elif method.lower() in known:
            chosen.add(known[method.lower()].method)
        else:
            near = difflib.get_close_matches(method.lower(), known, n=1)
            remedy = (
                "overrides stand before the options" if "=" in method
                else f"nearest: {known[near[0]].method}" if near
                else f"there are {', '.join(row.method for row in rows)}, paper and all"
            )  # fmt: skip
            raise ResultsError(f"--methods {method}: no row of table {rows[0].table}; {remedy}")
    return [row for row in rows if row.method in chosen]


def validation_files(table: int, profile: Profile) -> list[Path]:
    """The files that the runs of a table validate on; [] where they are the scripts' own."""
    if profile == "cpu":
        return []
    return [DATA / FILES[name] for name in paper_table(table).benchmarks if name in FILES]
