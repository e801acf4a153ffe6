"""`rpg watch`: show running runs as a live table, read from their files."""

import argparse
import sys
import time
from pathlib import Path

from rich.console import Console
from rich.live import Live

from rpg.arguments import at_least
from rpg.diagnostics import printable
from rpg.files.atomic import CONFIG, METRICS
from rpg.files.lock import RUN
from rpg.names import ACCURACY, TRAINING_REWARD
from rpg.results.measures import not_of_one_kind
from rpg.results.messages import Note, ResultsError, exit_code, show_notes
from rpg.results.runs import find_logs, or_checkpoints
from rpg.results.samples import answer_lines
from rpg.results.watching import Watched, screen, show

BEGUN = (METRICS, CONFIG, RUN)  # files of a run, also of one without a step


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg watch`."""
    parser.add_argument(
        "runs", nargs="*", type=Path, metavar="DIR", help="a run's directory, or a folder of them; default: checkpoints"
    )
    parser.add_argument("--every", type=float, default=2.0, metavar="SECONDS", help="between two updates; default: 2")
    saved = "print the last N answers that each run saved, with their scores, and end"
    parser.add_argument("--answers", type=at_least(1), metavar="N", help=saved)
    parser.add_argument("--once", action="store_true", help="print the present state and end")


def run(args: argparse.Namespace) -> int:
    """Show the runs until all have logged their last step. Ctrl-C does not end the runs.

    Returns 1 if a run was left out, 2 without a run.
    """
    if not args.every > 0:
        raise ResultsError(f"--every {args.every}: must be a positive number of seconds")
    paths = or_checkpoints(args.runs)
    logs, notes = find_logs(paths, BEGUN)
    if args.answers is not None:
        return _show_answers([log.parent for log in logs] or paths, args.answers)
    if not logs:
        where = ", ".join(map(str, paths))
        if args.once:
            raise ResultsError(f"{where}: no run there yet; without --once `rpg watch` waits for it")
        print(f"{printable(where)}: no run there yet; waiting for its start (Ctrl-C ends)", file=sys.stderr, flush=True)
        while not logs:
            time.sleep(args.every)
            logs, notes = find_logs(paths, BEGUN)
    all_watched = [Watched(log) for log in logs]
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


def _show_answers(runs: list[Path], count: int) -> int:
    notes = []
    for directory in runs:
        try:
            print(*answer_lines(directory, count, Console().width), "", sep="\n")
        except ResultsError as error:
            notes.append(Note(str(error), left_out=True))
    if len(notes) == len(runs):
        raise ResultsError("; ".join(note.text for note in notes))
    return show_notes(notes)
