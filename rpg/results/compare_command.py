"""`rpg compare`: is B better than A, by how much, and what else differs."""

import argparse
import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Column, Table
from rich.text import Text

from rpg.results.compare import TRAINING_REWARD, Group, compare, differing_settings, load_group, side_by_side
from rpg.results.run_settings import ResultsError, about, exit_code, printable, refusing, setting, show_notes

LETTERS = 600  # shown of a problem or response
MOST_SETTINGS = 30


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg compare`."""
    parser.add_argument("first", type=Path, metavar="A", help="run directory, or folder with the runs of seeds")
    parser.add_argument("others", nargs="+", type=Path, metavar="B", help="likewise; each is compared with A")
    parser.add_argument(
        "--answers", type=int, default=2, metavar="N", help="show N problems that only one side solves (default: 2)"
    )
    parser.add_argument("--json", action="store_true", help="everything as one JSON object")


@refusing
def run(args: argparse.Namespace) -> int:
    """Print the comparison of A with each B. Returns 1 if input was left out, 2 if there is nothing to compare."""
    notes: list[str] = []
    first = load_group(args.first, notes)
    others = [load_group(path, notes) for path in args.others]
    reports = [report(first, other, args.answers, notes) for other in others]
    notes += [about(log.name, note) for group in (first, *others) for log in group.runs for note in log.notes]
    if args.json:
        notes = list(dict.fromkeys(notes))
        print(json.dumps({"comparisons": reports, "notes": notes}, indent=2))
        return exit_code(notes)
    for one in reports:
        show(Console(highlight=False), one)
    return show_notes(notes)


def report(first: Group, second: Group, count: int, notes: list[str]) -> dict[str, Any]:
    """One comparison in JSON's types."""
    differences = compare(first, second)
    if not differences:
        raise ResultsError(f"{first.path} and {second.path} have no benchmark and no training reward in common")
    runs = [*first.runs, *second.runs]
    if len({run.last_step for run in runs}) > 1:
        notes.append(f"{first.name} and {second.name} are at different steps: a difference is also one of training")
    if any(setting(run.config, "algorithm.filter_groups.enable") for run in runs):
        notes.append(f"{TRAINING_REWARD}: algorithm.filter_groups is on, so it is the mean over the kept groups only")
    if len(runs) == 2:
        notes.append("one run a side: an interval over problems does not cover other seeds")
    return {
        "first": first.name,
        "second": second.name,
        "differences": [asdict(outcome) for outcome in differences],
        "settings": differing_settings((first, second)),
        "answers": side_by_side(first.runs[0], second.runs[0], count) if count > 0 else [],
    }


def show(console: Console, comparison: dict[str, Any]) -> None:
    """Print one comparison: differences (bold if the interval excludes 0), settings, answers."""
    console.print(Text(f"A  {printable(comparison['first'])}\nB  {printable(comparison['second'])}\n"))
    rows = []
    for outcome in comparison["differences"]:
        means = [Text(f"{outcome[side]:.4f}") for side in ("first", "second")]
        value = Text(f"{outcome['difference']:+.4f}", style="bold" if outcome["clear"] else "")
        interval = "unknown: one run a side"
        if outcome["interval"]:
            interval = "{:+.4f} to {:+.4f}, over {}".format(*outcome["interval"], outcome["over"])
        rows.append([Text(outcome["outcome"]), *means, value, Text(interval)])
    console.print(_table(["", "A", "B", "B - A", "95% interval"], rows))
    if settings := comparison["settings"]:
        console.print(f"\nsettings that differ ({len(settings)})")
        shown = [[Text(printable(text)) for text in (key, *values)] for key, values in settings.items()]
        console.print(_table(["", "A", "B"], shown[:MOST_SETTINGS]))
        if len(shown) > MOST_SETTINGS:
            console.print(f"... and {len(shown) - MOST_SETTINGS} more: --json lists all")
    for answer in comparison["answers"]:
        console.print(Text(f"\nproblem  {short(answer['problem'])}\nanswer   {short(answer['answer_key'])}"))
        console.print(Text(f"A        {short(answer['first'])}\nB        {short(answer['second'])}"))


def _table(head: list[str], rows: list[list[Text]]) -> Table:
    table = Table(*(Column(heading, overflow="fold") for heading in head), box=None, pad_edge=False)
    for row in rows:
        table.add_row(*row)
    return table


def short(text: str) -> str:
    """The text in one line; of a long one the end, where the answer is."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= LETTERS else f"… {line[-LETTERS:]}"
