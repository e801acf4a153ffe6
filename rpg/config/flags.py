"""The overrides, and the flags for a run's files, that `rpg train`, `rpg doctor` and `rpg plan` share."""

import argparse
import os
from pathlib import Path

from rpg.config.keys import KEYS
from rpg.overrides import override

VARIABLES = {"model": "MODEL_PATH", "train": "TRAIN_FILE", "test": "TEST_FILE"}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the overrides and the flags."""
    about = "Hydra overrides, as for the script"
    parser.add_argument("overrides", nargs="*", default=[], metavar="OVERRIDE", help=about)
    parser.add_argument("--model", metavar="M", help="model directory or hub name (MODEL_PATH)")
    parser.add_argument("--train", metavar="FILE", help="parquet file, or [a,b] (TRAIN_FILE)")
    parser.add_argument("--test", metavar="FILE", help="parquet file, or [a,b] (TEST_FILE)")
    parser.add_argument("--reward", metavar="FILE", help=f"Python file ({KEYS['reward']})")


def overrides(args: argparse.Namespace) -> list[str]:
    """Return the overrides of the flags; set the variables of those that have one, which win over the caller's.

    Raises BadSetting for a path that an override cannot hold.
    """
    os.environ.update({name: value for flag, name in VARIABLES.items() if (value := getattr(args, flag)) is not None})
    if not args.reward:
        return []
    path = args.reward if args.reward.startswith("pkg://") else Path(args.reward).expanduser().absolute()
    return [override(KEYS["reward"], path)]
