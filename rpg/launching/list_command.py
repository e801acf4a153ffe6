"""`rpg list [--size S] [--method M] [--task T]`: the launch scripts by size, method and task."""

import argparse
import difflib
import re
import sys
from collections import Counter

from rich.console import Console
from rich.table import Table

from rpg.launching import scripts
from rpg.methods.names import ScriptName, parse
from rpg.methods.table import METHODS

TASKS = {"7b": "DAPO-Math", "4b": "DAPO-Math", "1gpu": "GSM8K", "cpu": "toy"}
WORDS = re.compile(r"\w+\+*")  # of a label, as REINFORCE++


def task(name: ScriptName) -> str:
    """What a script trains on."""
    return "small sums" if name.model == "smollm2" else TASKS[name.size]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg list`."""
    parser.add_argument("--size", choices=scripts.SIZES, help="folder of recipe/rpg")
    parser.add_argument("--method", metavar="M", help=f"one of {', '.join(METHODS)}, or words of a label, as RPG-URKL")
    parser.add_argument("--task", metavar="T", help="what it trains on, as gsm8k")


def run(args: argparse.Namespace) -> int:
    """Print the scripts that were asked for; 2 where there are none."""
    named = {text: parse(text) for text in scripts.paths()}
    if args.method in METHODS:
        named = {text: name for text, name in named.items() if name.method == args.method}
    elif args.method:
        words = set(WORDS.findall(args.method.lower()))
        named = {text: name for text, name in named.items() if words <= set(WORDS.findall(name.label.lower()))}
    found = {
        text: name
        for text, name in named.items()
        if args.size in (None, name.size) and (args.task or "").lower() in task(name).lower()
    }
    if not found:
        near = difflib.get_close_matches(args.method or "", METHODS, n=1)
        hint = f"; did you mean --method {near[0]}?" if near else ""
        print(f"rpg list: no script of this size, method and task{hint}", file=sys.stderr)
        return 2
    console = Console(soft_wrap=True)
    if console.is_terminal:
        console.print(table(found), soft_wrap=False)
    else:  # for grep and other programs
        for text, name in found.items():
            print("\t".join([text, *cells(name)]))
    sizes = Counter(name.size for name in found.values())
    print(f"{len(found)} scripts: {', '.join(f'{count} {size}' for size, count in sizes.items())}", file=sys.stderr)
    return 0


def cells(name: ScriptName) -> list[str]:
    """Size, method, model and task of a script."""
    model = (name.hub_model or "toy").rpartition("/")[2]
    return [name.size, name.label, f"{model} + LoRA" if name.adapter else model, task(name)]


def table(found: dict[str, ScriptName]) -> Table:
    """The scripts as a table for a terminal."""
    made = Table(box=None, header_style="bold")
    made.add_column("name (rpg train NAME)", overflow="fold", ratio=1)
    for column in ("size", "method", "model", "task"):
        made.add_column(column)
    for text, name in found.items():
        made.add_row(text, *cells(name))
    return made
