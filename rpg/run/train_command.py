"""`rpg train [NAME] [--model M] [--train F] [--test F] [--reward F] [OVERRIDE ...]`: start a run."""

import argparse

from rpg.config import flags
from rpg.registry import scripts


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg train`."""
    folders = sorted(path for path in (scripts.RECIPE / "config").iterdir() if path.is_dir())
    entries = {folder.name: sorted(file.stem for file in folder.glob("*.yaml")) for folder in folders}
    groups = "\n".join(f"  {name}={'|'.join(names)}" for name, names in entries.items())
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = (
        f"{parser.epilog}\n\n`rpg list` shows the names; DRY_RUN=1 prints the configuration instead. "
        f"Groups that an override may choose:\n{groups}"
    )
    about = "launch script (`rpg list`), such as rpg_7b_urkl1e-4_rf, or its path; or the first override, method=grpo"
    parser.add_argument("script", metavar="NAME", help=about)
    flags.configure(parser)


def run(args: argparse.Namespace) -> int:
    """Return the run's exit code; 2 for an unknown script or a rejected run."""
    from rpg.run.__main__ import main

    return main(*flags.chosen(args))
