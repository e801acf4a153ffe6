"""`rpg compare`: compare results and settings of two runs or groups of seeds, A and B."""

import argparse
import json
from pathlib import Path

from rpg.arguments import at_least
from rpg.results.comparison import compare, load_side, show, side_by_side
from rpg.results.messages import exit_code, show_notes
from rpg.results.run_settings import differing, settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg compare`."""
    parser.add_argument("first", type=Path, metavar="A", help="run directory, or folder with the runs of seeds")
    parser.add_argument("others", nargs="+", type=Path, metavar="B", help="likewise; each is compared with A")
    parser.add_argument(
        "--answers",
        type=at_least(0),
        default=2,
        metavar="N",
        help="show N problems that only one side solves (default: 2)",
    )
    parser.add_argument("--json", action="store_true", help="everything as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print the comparison of A with each B. Returns 1 if input was left out, 2 if there is nothing to compare."""
    first, *others = sides = [load_side(path) for path in (args.first, *args.others)]
    reports, notes = [], [note for side in sides for note in side.notes]
    for second in others:
        differences, more = compare(first, second)
        notes += more
        reports.append({
            "first": first.name,
            "second": second.name,
            "differences": differences,
            "settings": differing([settings(side.runs[0].config) for side in (first, second)]),
            "answers": side_by_side(first.samples, second.samples, args.answers),
        })  # fmt: skip
    if args.json:
        texts = list(dict.fromkeys(note.text for note in notes))
        print(json.dumps({"comparisons": reports, "notes": texts}, indent=2))
        return exit_code(notes)
    for number, report in enumerate(reports):
        print("\n" * (number > 0), end="")
        show(report)
    return show_notes(notes)
