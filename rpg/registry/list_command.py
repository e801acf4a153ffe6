"""`rpg list [--size S] [--method M] [--task T]`: the names of runs by size, method and task."""

import argparse
import re
import shutil
import sys
from collections import Counter
from collections.abc import Iterator, Sequence

from rpg.registry import recipe
from rpg.registry.datasets import BY_ENTRY
from rpg.registry.methods import METHODS
from rpg.registry.scripts import ScriptName, listed, overrides

WIDTH = 78  # of a name and a method
DEFAULT_ENTRY = "dapo_math"  # of the Hydra group `dataset`, in rpg_trainer.yaml


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg list`."""
    parser.add_argument("--size", choices=recipe.SIZES, help="7b, 4b and cpu are folders of recipe/rpg")
    parser.add_argument("--method", metavar="M", help=f"one of {', '.join(METHODS)}, or words of a label (RPG-URKL)")
    parser.add_argument("--task", metavar="T", help="training data set, e.g. gsm8k")


def run(args: argparse.Namespace) -> int:
    """Print the matching names: columns with a header on a terminal, else tab-separated; 2 if none matches."""
    rows, sizes = [], Counter[str]()
    for text, name in listed().items():
        row = [text, *cells(name)]
        task_matches = (args.task or "").lower() in row[-1].lower()
        if args.size in (None, name.size) and has_method(name, args.method) and task_matches:
            rows.append(row)
            sizes[name.size] += 1
    if not rows:
        asked = " ".join(f"--{name} {value}" for name in ("size", "method", "task") if (value := getattr(args, name)))
        print(f"rpg list: {asked}: no such name; without options it lists all", file=sys.stderr)
        return 2
    if sys.stdout.isatty():
        print(*columns(rows, shutil.get_terminal_size().lines), sep="\n")
    else:  # for grep and other programs
        print(*("\t".join(row) for row in rows), sep="\n")
    print(f"{len(rows)} names: {', '.join(f'{count} {size}' for size, count in sizes.items())}", file=sys.stderr)
    return 0


def columns(rows: Sequence[Sequence[str]], height: int) -> Iterator[str]:
    """Yield names and methods in 80 columns, by size, model and task; the header again at the end of a long list."""
    longest = max(len(row[0]) for row in rows)
    header = f"{'name (rpg train NAME)'.ljust(longest)}  method"
    yield header
    groups: dict[str, list[Sequence[str]]] = {}
    for row in rows:
        groups.setdefault(f"{row[1]}: {row[3]}, {row[4]}", []).append(row)
    for title, members in groups.items():
        yield f"\n{title}"
        yield from (f"{row[0].ljust(min(longest, WIDTH - len(row[2])))}  {row[2]}" for row in members)
    if len(rows) >= height:
        yield f"\n{header}"


def cells(name: ScriptName) -> list[str]:
    """Return size, method, model and task of a name."""
    model = (name.hub_model or "toy").rpartition("/")[2]
    entry = dict(text.split("=", 1) for text in overrides(name)).get("dataset", DEFAULT_ENTRY)
    task = BY_ENTRY[entry].task if entry in BY_ENTRY else entry.replace("_", " ")
    return [name.size, name.label, f"{model} + LoRA" if name.adapter else model, task]


def has_method(name: ScriptName, method: str | None) -> bool:
    """Return whether a name has this method, or a label with all of these words."""
    if method is None or method in METHODS:
        return method in (None, name.method)
    words, label = (set(re.findall(r"\w+\+*", text.lower())) for text in (method, name.label))  # such as REINFORCE++
    return words <= label
