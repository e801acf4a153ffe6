"""The command `rpg`: one subcommand a module, imported only when it is called.

Each module listed here offers `configure(parser)`, which adds its arguments, and `run(args) -> int`,
which does the work and returns the exit code.
"""

import argparse
import importlib
import io
import sys

COMMANDS = {
    "verify": ("rpg.verify", "check every loss against the exact gradient of the objective"),
    "data": ("rpg.data.command", "build and check the training and evaluation files"),
    "demo": ("rpg.demo", "build the toy model and data, train on this machine, show the result"),
    "doctor": ("rpg.doctor", "say what would fail in a run, before it does"),
    "table": ("rpg.results.table_command", "Last and Best of runs, in the paper's form and beside the paper's numbers"),
    "plot": ("rpg.results.plot_command", "panels and one self-contained page of runs"),
    "eval": ("rpg.results.evaluate", "validate a checkpoint, without training"),
    "score": ("rpg.results.score", "score the saved validation samples of runs again, by another judge"),
    "export": ("rpg.export", "a checkpoint as a Hugging Face model directory"),
}


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand; the exit code is the subcommand's."""
    for stream in (sys.stdout, sys.stderr):  # a name or a terminal outside UTF-8 is no reason to end
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    argv = sys.argv[1:] if argv is None else argv
    parser = argparse.ArgumentParser(prog="rpg", description="KL-regularised policy gradients for verl.")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (module, help_text) in COMMANDS.items():
        subparser = subparsers.add_parser(name, help=help_text, description=help_text)
        if name in argv[:1]:  # importing torch for `rpg --help` would cost seconds
            importlib.import_module(module).configure(subparser)
    args = parser.parse_args(argv)
    try:
        return importlib.import_module(COMMANDS[args.command][0]).run(args)
    except KeyboardInterrupt:
        print(f"rpg {args.command}: interrupted", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
