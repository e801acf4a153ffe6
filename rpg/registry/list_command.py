"""`rpg list [SIZE] [--method M] [--all]`: the launch scripts, by size and method."""

import argparse
import re
import sys
from itertools import groupby

from rpg.diagnostics import UserError, did_you_mean, fitted
from rpg.registry.methods import LABELS, METHODS
from rpg.registry.scripts import SIZES, Script, paths, read

FIRST = 3  # names of a size, without --all


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg list`."""
    parser.add_argument("--size", choices=SIZES, help="list the scripts of recipe/rpg/SIZE")
    parser.add_argument("--method", metavar="M", help=f"list its scripts: {', '.join(METHODS)}, or a label (RPG-URKL)")
    parser.add_argument("--all", action="store_true", help="list all names (default: the first of each size)")


def run(args: argparse.Namespace) -> int:
    """Print names with what they train, tab-separated outside a terminal; return 2 if none matches."""
    found = [script for script in map(read, paths().values()) if args.size in (None, script.size)]
    if args.method:
        found = [script for script in found if has_method(script, args.method)]
        if not found:
            near = did_you_mean(args.method, [*METHODS, *LABELS], 0.4)
            raise UserError(f"--method {args.method}: no script has this method; {near or 'rpg list shows the names'}")
    every = args.all or args.method or args.size or not sys.stdout.isatty()
    for size, of_size in groupby(found, key=lambda script: script.size):
        scripts = list(of_size)
        if sys.stdout.isatty():
            print(f"{size}: {len(scripts)} scripts, bash recipe/rpg/{size}/run_NAME.sh or rpg train NAME")
        shown = scripts if every else scripts[:FIRST]
        lines = [f"{script.name}\t{script.about}" for script in shown]
        print(*fitted([line.replace("\t", "  ") if sys.stdout.isatty() else line for line in lines], 4), sep="\n")
        if len(shown) < len(scripts):
            print(f"  and {len(scripts) - len(shown)} more: rpg list --size {size}")
    if not args.method:
        print("without a script: rpg train method=grpo model=MODEL ... (rpg train --help)", file=sys.stderr)
    return 0


def has_method(script: Script, method: str) -> bool:
    """Return whether a script has this method, or a comment with all of these words."""
    if method in METHODS:
        return f"method={method}" in script.overrides
    words, about = (set(re.findall(r"\w+\+*", text.lower())) for text in (method, script.about))  # REINFORCE++
    return words <= about
