"""`rpg table`: Last and Best of runs in the paper's form, also with the paper's numbers, in several formats."""

import argparse
from pathlib import Path

from rpg.logged import is_validation
from rpg.results.formats import FORMATS, default
from rpg.results.messages import ResultsError, exit_code, show_notes
from rpg.results.runs import load_runs, or_checkpoints
from rpg.results.table import build_table, paper_table


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg table`."""
    runs = "run directory, a folder of them or a metrics.jsonl (default: checkpoints)"
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help=runs)
    parser.add_argument("--paper", type=int, metavar="N", help="the paper's table N: alone, or beside the runs")
    parser.add_argument("--format", choices=FORMATS, default=default(), help="default: terminal in one, else md")
    parser.add_argument("--json", dest="format", action="store_const", const="json", help="short for --format json")


def run(args: argparse.Namespace) -> int:
    """Print the table; return 1 if input was left out, 2 if there is nothing to show."""
    paper = None if args.paper is None else paper_table(args.paper)
    alone = paper if not args.runs else None
    table = alone or build_table(*load_runs(or_checkpoints(args.runs), is_validation), paper)
    if not table.benchmarks:
        raise ResultsError("; ".join(["none of the runs logged an accuracy", *table.notes]))
    print(FORMATS[args.format](table), end="")
    return show_notes(table.notes) if args.format == "csv" else exit_code(table.notes)  # CSV cannot hold notes
