"""`rpg train NAME [--model M] [--train F] [--test F] [--reward F] [OVERRIDE ...]`: start a launch script."""

import argparse
from pathlib import Path
from typing import Any

from rpg.config import compose, flags
from rpg.config.keys import KEYS
from rpg.registry import recipe
from rpg.run.processes import brief


class HelpOfName(argparse.Action):
    """Print the help; after a name also where its run goes and how many steps it has."""

    def __call__(self, parser: argparse.ArgumentParser, namespace: argparse.Namespace, *_: Any) -> None:
        """Print and exit."""
        parser.print_help()
        if getattr(namespace, "script", None):
            print(f"\n{about(namespace.script)}")
        parser.exit()


def about(name: str) -> str:
    """Return how many steps a run has and where it goes, or why that is unknown."""
    try:
        s = compose.of_script(recipe.find(name), []).settings
    except ValueError as error:
        return str(error)
    length = f"{s.steps} steps ({KEYS['steps']})" if s.steps else f"{s.epochs} epochs ({KEYS['epochs']})"
    return f"{name}: {length},\ninto {brief(Path(s.directory).absolute())} (CKPTS_DIR or {KEYS['directory']})"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg train`."""
    folders = sorted(path for path in (recipe.RECIPE / "config").iterdir() if path.is_dir())
    entries = {folder.name: sorted(file.stem for file in folder.glob("*.yaml")) for folder in folders}
    groups = "\n".join(f"  {name}={'|'.join(names)}" for name, names in entries.items())
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        f"{parser.epilog}\n\n`rpg list` shows the names; DRY_RUN=1 prints the configuration instead. "
        f"Groups that an override may choose:\n{groups}"
    )
    parser.add_argument("script", metavar="NAME", help="a script of recipe/rpg, e.g. rpg_7b_urkl1e-4_rf, or its path")
    parser.add_argument(
        "overrides", nargs="*", default=[], metavar="OVERRIDE", help="Hydra overrides, as for the script"
    )
    flags.configure(parser)
    parser.add_argument("-h", "--help", action=HelpOfName, nargs=0, help="this help; after NAME also about its run")


def run(args: argparse.Namespace) -> int:
    """Return the run's exit code; 2 for an unknown script or a rejected run."""
    from rpg.run.__main__ import main

    script = recipe.find(args.script)
    overrides = [*script.overrides, *flags.overrides(args)]
    return main(script.name, [*overrides, *args.overrides])
