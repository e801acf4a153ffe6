"""`rpg doctor [SCRIPT]`: find what would fail in a run. One line per check, with its remedy.

Without a script it checks plugin and versions, with a launch script also its resolved configuration.
"""

import argparse
from collections import Counter

from rpg.checks.doctor import check_all
from rpg.checks.preflight import CHECKS, name_of, rule_of
from rpg.config import flags
from rpg.diagnostics import MARKS, BadSetting, fitted


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg doctor`."""
    parser.add_argument("script", nargs="?", help="a launch script, by name or path")
    flags.configure(parser)
    parser.add_argument("-v", "--verbose", action="store_true", help="also list the checks that passed or were not run")
    parser.add_argument("--list", action="store_true", help="list the checks of a run with their rules, and exit")
    parser.add_argument("--ray", action="store_true", help="also ask a Ray worker (RAY_ADDRESS, or a Ray started here)")


def run(args: argparse.Namespace) -> int:
    """Print failed checks and how many passed; return 1 if a check failed, else 0."""
    if args.list:
        for (cost, subject), checks in CHECKS.items():
            print(f"{subject}, {cost}:")
            print(*fitted([f"  {name_of(check)}: {rule_of(check)}" for check in checks], 4), sep="\n")
        return 0
    if args.script is None and any((args.model, args.train, args.test, args.reward)):
        raise BadSetting("--model, --train, --test and --reward are for a run; give its NAME")
    overrides = [*flags.overrides(args), *args.overrides]
    counts: Counter[str] = Counter()
    for level, message in check_all(args.script, overrides, args.ray):
        counts[level] += 1
        if args.verbose or level in ("error", "warning"):
            print(*fitted([f"{MARKS[level]}  {message}"], 6), sep="\n", flush=True)
    failed = f"{counts['error']} failed, " if counts["error"] else ""
    warned = f"{counts['warning']} warned, " if counts["warning"] else ""
    more = "" if args.verbose else " (-v lists them)"
    print(f"{failed}{warned}{counts['ok']} checks passed, {counts['skip']} not run{more}")
    return 1 if counts["error"] else 0
