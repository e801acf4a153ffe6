"""`rpg table`: Last and Best of every run in the paper's form, beside the paper's own numbers."""

import argparse
import sys
from pathlib import Path

from rpg.results.config import ResultsError, exit_code
from rpg.results.paper import paper_table
from rpg.results.render import FORMATS, printable
from rpg.results.runs import is_accuracy, load_runs
from rpg.results.table import build_table


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg table`."""
    parser.add_argument(
        "runs",
        nargs="*",
        type=Path,
        metavar="RUN",
        help="run directory, a folder of them, a metrics.jsonl or a TensorBoard directory",
    )
    parser.add_argument("--paper", type=int, metavar="N", help="the paper's table N: alone, or beside the runs")
    parser.add_argument("--format", choices=FORMATS, default="md", help="default: md")


def run(args: argparse.Namespace) -> int:
    """Print the table; 1 where something given was left out, 2 where there is nothing to show."""
    try:
        paper = None if args.paper is None else paper_table(args.paper)
        if args.runs:
            notes: list[str] = []
            table = build_table(load_runs(args.runs, notes, is_accuracy), notes, paper)
        elif paper:
            table = paper
        else:
            raise ResultsError("give RUN..., or --paper N for the paper's own table")
    except (ResultsError, OSError) as error:
        print(f"rpg table: {printable(str(error))}", file=sys.stderr)
        return 2
    print(FORMATS[args.format](table), end="")
    if args.format == "csv":  # which has no place for them
        for note in table.notes:
            print(f"note: {printable(note)}", file=sys.stderr)
    return exit_code(table.notes)
