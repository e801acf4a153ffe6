"""`rpg plot`: panels of runs as PNG and SVG."""

import argparse
from pathlib import Path

from rpg.arguments import at_least
from rpg.results import figures
from rpg.results.runs import load_runs, measured_apart, notes_of, show_notes
from rpg.results.table import build_table


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg plot`."""
    add = parser.add_argument
    add("runs", nargs="*", type=Path, metavar="RUN", help="run directories or folders of them (default: checkpoints)")
    add("--out", type=Path, default=Path("plots"), metavar="DIR", help="folder of the pictures (default: plots)")
    add("--pass-at", type=at_least(1), metavar="K", help="also draw pass@K by step, from the saved answers")


def run(args: argparse.Namespace) -> int:
    """Write panels.png and panels.svg."""
    runs = load_runs(args.runs)
    table = build_table(runs)
    print(*figures.plot(table, args.out, args.pass_at), sep="\n")
    unlike = measured_apart([run for run in runs if len(run.training_reward)], "training rewards")
    show_notes([*table.notes, *notes_of(runs), *unlike])
    return 0
