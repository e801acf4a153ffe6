"""The overrides, and the flags that stand for some of them, of `rpg train`, `doctor`, `plan` and `eval`."""

import argparse
from pathlib import Path

from rpg.config.verl_keys import MODEL, REWARD
from rpg.overrides import override
from rpg.registry import scripts

FLAGS = {"model": f"{MODEL}.path", "train": "data.train_files", "test": "data.val_files", "reward": REWARD}


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the overrides and the flags."""
    parser.add_argument("overrides", nargs="*", default=[], metavar="OVERRIDE", help="KEY=VALUE, a Hydra override")
    parser.add_argument("--model", metavar="MODEL", help=f"folder or name on the hub ({FLAGS['model']})")
    for name, used in (("train", "training"), ("test", "validation")):
        parser.add_argument(f"--{name}", nargs="+", metavar="FILE", help=f"parquet files of {used} ({FLAGS[name]})")
    parser.add_argument("--reward", metavar="FILE", help=f"Python file with a reward function ({FLAGS['reward']})")


def chosen(args: argparse.Namespace) -> tuple[str | None, list[str]]:
    """Return the launch script's name (None if NAME is an override) and the overrides, the script's first.

    Raises UserError for an unknown name.
    """
    if args.script is None or "=" in args.script:  # no script: the first override
        args.overrides[:0] = [args.script] if args.script else []
        return None, overrides(args)
    script = scripts.find(args.script)
    return script.name, [*script.overrides, *overrides(args)]


def overrides(args: argparse.Namespace) -> list[str]:
    """Return the overrides of the flags, then those that were typed, which win."""
    given, typed = {name: value for name in FLAGS if (value := getattr(args, name)) is not None}, [*args.overrides]
    for name, value in given.items():
        if name in ("train", "test"):  # an override behind the files is one of these words
            files = [word for word in value if "=" not in word or Path(word).exists()]
            typed += [word for word in value if word not in files]
            given[name] = [str(Path(file).expanduser().absolute()) for file in files]
        elif not value.startswith("pkg://") and (name == "reward" or Path(value).expanduser().exists()):
            given[name] = str(Path(value).expanduser().absolute())
    return [*(override(FLAGS[name], value) for name, value in given.items()), *typed]
