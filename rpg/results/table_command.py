"""`rpg table`: Last and Best of runs in the paper's form, also with the paper's numbers, in several formats."""

import argparse
from pathlib import Path

from rpg.diagnostics import UserError
from rpg.results.formats import FORMATS, show
from rpg.results.runs import load_runs
from rpg.results.table import build_table, paper_table


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg table`."""
    runs = "run directories or folders of them (default: checkpoints)"
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help=runs)
    parser.add_argument("--paper", type=int, metavar="N", help="show the paper's table N, alone or beside the runs")
    parser.add_argument("--format", choices=FORMATS, default="", help="default: terminal in a terminal, else md")


def run(args: argparse.Namespace) -> int:
    """Print the table."""
    alone = args.paper and not args.runs
    table = paper_table(args.paper) if alone else build_table(load_runs(args.runs), args.paper)
    if not table.benchmarks:
        raise UserError("none of the runs logged an accuracy; a reward function returns acc beside score")
    show(table, args.format)
    return 0
