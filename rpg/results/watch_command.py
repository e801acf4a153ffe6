"""`rpg watch`: show running runs as a live table, read from their files."""

import argparse
from pathlib import Path

from rich.console import Console
from rich.live import Live

from rpg.files.atomic import CONFIG
from rpg.names import ACCURACY, TRAINING_REWARD
from rpg.results.answers import answers
from rpg.results.messages import ResultsError, exit_code, refusing, show_notes
from rpg.results.runs import METRICS, find_logs, not_of_one_kind
from rpg.results.watching import Watched, screen, show


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg watch`."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="DIR", help="a run's directory, or a folder of them")
    parser.add_argument("--every", type=float, default=2.0, metavar="SECONDS", help="between two looks; default: 2")
    saved = "print the last N answers that each run saved, with their scores, and end"
    parser.add_argument("--answers", type=int, metavar="N", help=saved)
    parser.add_argument("--once", action="store_true", help="print the present state and end")


@refusing
def run(args: argparse.Namespace) -> int:
    """Show the runs until all have logged their last step. Ctrl-C does not end the runs.

    Returns 1 if a run was left out, 2 without a run.
    """
    if not args.every > 0:
        raise ResultsError(f"--every {args.every}: must be a positive number of seconds")
    if args.answers is not None:
        if args.answers < 1:
            raise ResultsError(f"--answers {args.answers}: must be 1 or more")
        for directory in args.runs:
            print(*answers(directory, args.answers, Console().width), sep="\n")
        return 0
    waiting = [run for run in args.runs if (run / CONFIG).is_file() and not (run / METRICS).exists()]
    logs, notes = find_logs(run for run in args.runs if run not in waiting)
    all_watched = [Watched(log) for log in (*logs, *(run / METRICS for run in waiting))]  # no steps yet
    if not all_watched:
        raise ResultsError("; ".join(note.text for note in notes))
    runs = [(watched.name, watched.run) for watched in map(Watched, logs) if watched.read() and watched.run]
    show_notes([*notes, *(note for number in (ACCURACY, TRAINING_REWARD) for note in not_of_one_kind(number, runs))])
    console = Console()
    if not console.is_terminal or console.is_dumb_terminal:
        show(all_watched, args.once, args.every)
    elif args.once:
        for watched in all_watched:
            watched.read()
        console.print(screen(all_watched, console.width))
    else:
        with Live(console=console, auto_refresh=False) as live:
            show(all_watched, False, args.every, live)
    return 1 if any(watched.unreadable for watched in all_watched) else exit_code(notes)
