"""`rpg compare`: is B better than A, by how much, and what else differs."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from rpg.results.compare import (
    TRAINING_REWARD,
    Difference,
    Group,
    compare,
    differing_settings,
    filters_groups,
    load_group,
    planned_alike,
    side_by_side,
)
from rpg.results.settings import ResultsError, about, exit_code, printable

LETTERS = 600  # of a problem or response that is shown
MOST_SETTINGS = 30


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg compare`."""
    parser.add_argument("first", type=Path, metavar="A", help="a run's directory, or a folder with the runs of seeds")
    parser.add_argument("others", nargs="+", type=Path, metavar="B", help="likewise; each is compared with A")
    parser.add_argument(
        "--answers", type=int, default=2, metavar="N", help="problems that one side alone solves; default: 2"
    )
    parser.add_argument("--json", action="store_true", help="everything as one JSON object")


def run(args: argparse.Namespace) -> int:
    """Print the comparison of A with each B; 1 where something given was left out, 2 where there is nothing."""
    notes: list[str] = []
    try:
        first = load_group(args.first, notes)
        others = [load_group(path, notes) for path in args.others]
        reports = [report(first, other, args.answers, notes) for other in others]
    except (ResultsError, OSError) as error:
        print(f"rpg compare: {printable(str(error))}", file=sys.stderr)
        return 2
    for run_log in (run_log for group in (first, *others) for run_log in group.runs):
        notes += [about(run_log.name, note) for note in dict.fromkeys(run_log.notes)]
    if args.json:
        print(json.dumps({"comparisons": [as_json(one) for one in reports], "notes": notes}, indent=2))
        return exit_code(notes)
    console = Console(highlight=False)
    for one in reports:
        show(console, one)
    for note in dict.fromkeys(notes):
        print(f"note: {printable(note)}", file=sys.stderr)
    return exit_code(notes)


def report(first: Group, second: Group, count: int, notes: list[str]) -> dict[str, Any]:
    """What is shown of one comparison."""
    differences = compare(first, second)
    if not differences:
        raise ResultsError(f"{first.path} and {second.path} have no benchmark and no training reward in common")
    if not planned_alike(first, second):
        notes.append(f"{first.name} and {second.name} are at different steps: a difference is also one of training")
    if any(map(filters_groups, (first, second))) and any(one.outcome == TRAINING_REWARD for one in differences):
        notes.append(
            f"{TRAINING_REWARD}: algorithm.filter_groups is on, so that it is the mean over the groups that were kept"
        )
    if len(first.runs) == len(second.runs) == 1:
        notes.append("one run a side: an interval over problems does not cover what another seed would change")
    return {
        "first": first.name,
        "second": second.name,
        "differences": differences,
        "settings": differing_settings((first, second)),
        "answers": side_by_side(first.runs[0], second.runs[0], count) if count > 0 else [],
    }


def as_json(one: dict[str, Any]) -> dict[str, Any]:
    """A report in JSON's types."""
    differences = [vars(found) | {"clear": found.clear} for found in one["differences"]]
    names = ("problem", "answer_key", "first", "second")
    return one | {"differences": differences, "answers": [dict(zip(names, row, strict=True)) for row in one["answers"]]}


def show(console: Console, one: dict[str, Any]) -> None:
    """Print one comparison."""
    console.print(Text(f"A  {printable(one['first'])}\nB  {printable(one['second'])}\n"))
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, justify in (
        ("", "left"),
        ("A", "right"),
        ("B", "right"),
        ("B - A", "right"),
        ("95% interval", "left"),
    ):
        table.add_column(heading, justify=justify)  # pyright: ignore[reportArgumentType]
    for found in one["differences"]:
        table.add_row(*map(Text, (found.outcome, f"{found.first:.4f}", f"{found.second:.4f}")), *verdict(found))
    console.print(table)
    differing = one["settings"]
    if differing:
        console.print(f"\nsettings that differ ({len(differing)})")
        table = Table(box=None, pad_edge=False, header_style="bold")
        for heading in ("", "A", "B"):
            table.add_column(heading, overflow="fold")
        for key, values in list(differing.items())[:MOST_SETTINGS]:
            table.add_row(*(Text(printable(text)) for text in (key, *values)))
        console.print(table)
        if len(differing) > MOST_SETTINGS:
            console.print(f"... and {len(differing) - MOST_SETTINGS} more: --json lists all")
    for problem, key, *responses in one["answers"]:
        console.print(Text(f"\nproblem  {short(problem)}\nanswer   {printable(key)}"))
        for side, response in zip("AB", responses, strict=True):
            console.print(Text(f"{side}        {short(response)}"))


def verdict(found: Difference) -> tuple[Text, Text]:
    """The difference, bold where its interval leaves out 0, and the interval."""
    value = Text(f"{found.difference:+.4f}", style="bold" if found.clear else "")
    if found.interval is None:
        return value, Text("unknown: one run a side")
    return value, Text(f"{found.interval[0]:+.4f} to {found.interval[1]:+.4f}, over {found.over}")


def short(text: str) -> str:
    """The text in one line; its end where it is long, as answers stand there."""
    line = printable(" ".join(text.split()))
    return line if len(line) <= LETTERS else f"… {line[-LETTERS:]}"
