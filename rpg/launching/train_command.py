"""`rpg train NAME [OVERRIDE ...]`: start a launch script by its name, in this Python."""

import argparse
import sys

from rpg.launching import scripts
from rpg.launching.overrides import override


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg train`."""
    parser.add_argument("script", metavar="NAME", help="a script of recipe/rpg, as rpg_7b_urkl1e-4_rf, or its path")
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="Hydra overrides, as for the script")


def run(args: argparse.Namespace) -> int:
    """The run's exit code; 2 where the script is not known or the run is refused."""
    from rpg.launching.__main__ import main

    try:
        script = scripts.find(args.script)
        named = override("rpg.script", script.name)
    except ValueError as error:
        print(f"rpg train: {error}", file=sys.stderr)
        return 2
    return main([named, *script.overrides, *args.overrides])
