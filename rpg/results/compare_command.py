"""`rpg compare`: compare results and settings of two runs or groups of seeds, A and B."""

import argparse
import json
import os
import textwrap
from pathlib import Path
from typing import Any

from rich.console import Console

from rpg.arguments import at_least
from rpg.diagnostics import printable
from rpg.results.comparison import compare, load_side, side_by_side
from rpg.results.formats import screen
from rpg.results.messages import begin_of, end_of, exit_code, show_notes
from rpg.results.settings import differing, measured_by, settings
from rpg.results.table import not_compared


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg compare`."""
    parser.add_argument("first", type=Path, metavar="A", help="run directory, or folder with the runs of seeds")
    parser.add_argument("others", nargs="+", type=Path, metavar="B", help="likewise; each is compared with A")
    answers = "show N problems that only one side solves (default: 2)"
    parser.add_argument("--answers", type=at_least(0), default=2, metavar="N", help=answers)
    parser.add_argument("--json", action="store_true", help="everything as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print the comparison of A with each B. Returns 1 if input was left out, 2 if there is nothing to compare."""
    first, *others = sides = [load_side(path) for path in (args.first, *args.others)]
    reports, notes = [], [note for side in sides for note in side.notes]
    for second in others:
        runs = [first.runs[0], second.runs[0]]
        unlike = not_compared(measured_by(runs))
        differences, more = compare(first, second, comparable=not unlike)
        notes += [*more, *unlike]
        reports.append({
            "first": first.name,
            "second": second.name,
            "differences": differences,
            "settings": differing([settings(run.config) for run in runs]),
            "answers": side_by_side(first.samples, second.samples, args.answers),
        })  # fmt: skip
    if args.json:
        print(json.dumps({"comparisons": reports, "notes": list(dict.fromkeys(notes))}, indent=2))
        return exit_code(notes)
    for number, report in enumerate(reports):
        print("\n" * (number > 0), end="")
        show(report)
    return show_notes(notes)


def show(report: dict[str, Any]) -> None:
    """Print one comparison: settings that differ, differences (bold if the interval excludes 0), answers."""
    console = Console(highlight=False, markup=False, emoji=False)
    print(f"A  {printable(report['first'])}\nB  {printable(report['second'])}")
    if report["settings"]:
        print("\nsettings that differ")
    for key, values in report["settings"].items():
        print(f"{key}")
        for side, value in zip("AB", from_difference(*(value or "–" for value in values)), strict=True):
            print(f"  {side}  {begin_of(printable(value), console.width - 5)}")
    rows = []
    for outcome in report["differences"]:
        interval = "unknown: needs several runs a side, or answers to the same problems"
        if outcome["interval"]:
            interval = "{:+.4f} to {:+.4f}, over {}".format(*outcome["interval"], outcome["over"])
        form = "\x1b[1m{:+.4f}\x1b[0m" if outcome["clear"] else "{:+.4f}"
        means = [f"{outcome[side]:.4f}" for side in ("first", "second")]
        rows.append([outcome["outcome"], *means, form.format(outcome["difference"]), interval])
    table = screen(["", "A", "B", "B - A", "95% interval"], rows)
    table.columns[-1].justify, table.columns[-1].no_wrap = "left", False
    print()
    console.print(table)
    for answer in report["answers"]:
        for label, key in (("problem", "problem"), ("answer", "answer_key"), ("A", "first"), ("B", "second")):
            text = end_of(printable(" ".join(answer[key].split())), 600)
            print("" if label != "problem" else "\n", end="")
            print(textwrap.fill(f"{label:<8} {text}", console.width, subsequent_indent=" " * 9, break_long_words=False))


def from_difference(first: str, second: str) -> tuple[str, str]:
    """Return two long values from the entry in which they first differ."""
    begin = os.path.commonprefix([first, second]).rfind("/") + 1  # noqa: RUF071  # of letters
    return (f"…/{first[begin:]}", f"…/{second[begin:]}") if begin > 20 else (first, second)
