"""`rpg train NAME [--model M] [--train F] [--test F] [--reward F] [OVERRIDE ...]`: start a launch script."""

import argparse
import os
import sys
from pathlib import Path

from rpg.config.keys import KEYS
from rpg.overrides import override
from rpg.registry import recipe

VARIABLES = {"model": "MODEL_PATH", "train": "TRAIN_FILE", "test": "TEST_FILE"}


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
    parser.add_argument("--model", metavar="M", help="model directory or hub name (MODEL_PATH)")
    parser.add_argument("--train", metavar="FILE", help="parquet file, or [a,b] (TRAIN_FILE)")
    parser.add_argument("--test", metavar="FILE", help="parquet file, or [a,b] (TEST_FILE)")
    parser.add_argument("--reward", metavar="FILE", help="Python file (reward.custom_reward_function.path)")


def run(args: argparse.Namespace) -> int:
    """Return the run's exit code; 2 for an unknown script or a rejected run."""
    from rpg.run.__main__ import main

    try:
        script = recipe.find(args.script)
        overrides = [*script.overrides]
        if args.reward:
            path = args.reward if args.reward.startswith("pkg://") else Path(args.reward).expanduser().absolute()
            overrides.append(override(KEYS["reward"], path))
    except ValueError as error:
        print(f"rpg train: {error}", file=sys.stderr)
        return 2
    os.environ.update({name: value for flag, name in VARIABLES.items() if (value := getattr(args, flag)) is not None})
    return main(script.name, [*overrides, *args.overrides])
