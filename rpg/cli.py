"""The command `rpg`: one subcommand a module, in the room of its subject, imported only when it is called.

Each of these modules offers `configure(parser)`, which adds its arguments, and `run(args) -> int`,
which does the work and returns the exit code.
"""

import argparse
import importlib
import io
import sys
from types import ModuleType

COMMANDS = {  # name: room, help
    "verify": ("objectives", "check every loss against the exact gradient of the objective"),
    "data": ("data", "build and check the training and evaluation files"),
    "demo": ("toy", "build the toy model and data, train on this machine, show the result"),
    "train": ("launching", "start a launch script by its name"),
    "doctor": ("launching", "say what would fail in a run, before it does"),
    "lab": ("lab", "what matters off-policy, on a problem small enough to be exact"),
    "plan": ("launching", "memory of every phase, hours and disk of a run, before there is a GPU"),
    "watch": ("results", "running runs as a live table: step, time left, reward, accuracy, KL, memory"),
    "compare": ("results", "two runs or two groups of seeds: difference with its interval, settings, answers"),
    "table": ("results", "Last and Best of runs, in the paper's form and beside the paper's numbers"),
    "plot": ("results", "panels and one self-contained page of runs"),
    "eval": ("results", "validate a checkpoint, without training"),
    "score": ("results", "score the saved validation samples of runs again, by another judge"),
    "reproduce": ("results", "run a table of the paper: what is missing, its evaluation, table, panels and page"),
    "export": ("results", "a checkpoint as a Hugging Face model directory"),
}


def command(name: str) -> ModuleType:
    """The module of a subcommand: rpg/<room>/<name>_command.py."""
    return importlib.import_module(f"rpg.{COMMANDS[name][0]}.{name}_command")


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand; the exit code is the subcommand's."""
    for stream in (sys.stdout, sys.stderr):  # a name or a terminal outside UTF-8 is no reason to end
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(prog="rpg", description="KL-regularised policy gradients for verl.")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (_, help_text) in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=help_text, description=help_text)
        if name in argv[:1]:  # importing torch for `rpg --help` would cost seconds
            command(name).configure(subparser)
    args = parser.parse_args(argv)
    try:
        return command(args.command).run(args)
    except KeyboardInterrupt:
        print(f"rpg {args.command}: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
