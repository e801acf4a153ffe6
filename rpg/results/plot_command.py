"""`rpg plot`: panels of runs as PNG and SVG."""

import argparse
from pathlib import Path

from rpg.arguments import at_least
from rpg.diagnostics import printable
from rpg.results import figures
from rpg.results.messages import show_notes
from rpg.results.runs import load_runs, or_checkpoints
from rpg.results.table import build_table


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg plot`."""
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="as for `rpg table`")
    parser.add_argument("--out", type=Path, default=Path("plots"), metavar="DIR", help="default: plots")
    parser.add_argument(
        "--pass-at", type=at_least(1), metavar="K", help="also pass@K by step, from the samples of all validations"
    )


def run(args: argparse.Namespace) -> int:
    """Write panels.png and panels.svg; return 1 if input was left out, 2 if nothing is left."""
    table = build_table(*load_runs(or_checkpoints(args.runs), figures.is_drawn))
    for path in figures.plot(table, args.out, args.pass_at):
        print(printable(str(path)))
    return show_notes(table.notes)
