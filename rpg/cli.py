"""The command `rpg`: one module per subcommand, in the package of its subject, imported only when it is called.

Each of these modules has `configure(parser)`, which adds its arguments, and `run(args) -> int`,
which does the work and returns the exit code.
"""

import argparse
import importlib
import io
import os
import signal
import sys
from importlib import metadata
from types import ModuleType

from rpg.diagnostics import UserError, fitted, printable
from rpg.verl_plugin import version

COMMANDS = {  # name: package, what it does, an example
    "verify": ("objectives.proofs", "check every loss against the exact gradient of its objective", "rpg verify"),
    "data": ("data", "build and check training and evaluation files", "rpg data check data/*.parquet"),
    "demo": ("toy", "prepare a small model and data, train on this CPU, show the result", "rpg demo"),
    "list": ("registry", "list the launch scripts", "rpg list --method RPG-URKL"),
    "train": (
        "run",
        "start a launch script, or a run by its settings",
        "rpg train grpo_cpu, or rpg train method=grpo model=/models/mine dataset=gsm8k profile=one_gpu",
    ),
    "doctor": ("checks", "describe this machine; check whether a run will work", "rpg doctor rpg_7b_urkl1e-4"),
    "plan": ("run", "estimate whether a run fits its GPUs", "rpg plan rpg_7b_urkl1e-4 --gpu a100"),
    "watch": ("results", "show running runs as a live table", "rpg watch checkpoints/*"),
    "compare": ("results", "compare two runs or two groups of seeds", "rpg compare checkpoints/a checkpoints/b"),
    "table": ("results", "last and best validations, beside the paper's numbers", "rpg table checkpoints/* --paper 8"),
    "plot": ("results", "plot runs as PNG and SVG", "rpg plot checkpoints/* --out plots"),
    "eval": ("results", "validate a checkpoint without training", "rpg eval checkpoints/a"),
    "score": ("results", "score saved answers again", "rpg score checkpoints/a --judge verified"),
    "reproduce": ("results", "run a table or figure of the paper", "rpg reproduce 8 --seeds 1 2 3 --dry-run"),
    "export": ("results", "convert a checkpoint to Hugging Face's format", "rpg export checkpoints/a --out model"),
}  # fmt: skip
ALL_CHECKS = "`rpg doctor NAME` shows the checks that fail; rpg/checks/preflight.py lists all"
RETIRED = {  # command, or command and option, that is gone: what to use instead
    "--print-completion": "`rpg COMMAND --help` lists the options",
    "lab": "the laboratory is not part of the package; in a checkout: python -m scripts.studies.lab",
    "compare --answers": "`rpg watch RUN --answers N` shows answers; validation/STEP.jsonl has all",
    "compare --json": "`rpg table --format csv` has the numbers",
    "data build toy": "`rpg demo --model toy --prepare-only` makes the toy task and its model",
    "data build small_sums": "`rpg demo --prepare-only` makes these sums, and SmolLM2",
    "data build --repeat": "for more answers to each problem: actor_rollout_ref.rollout.val_kwargs.n=K in the run",
    "data --max-prompt-length": "--model prints the lengths; `rpg doctor` knows the run's limit",
    "data check --json": "the exit code says whether a file has errors (1) or none (0)",
    "data check --tokenizer": "--model DIR",
    "doctor --json": "the exit code says whether a check failed (1) or none (0)",
    "doctor --list": ALL_CHECKS,
    "doctor -v": ALL_CHECKS,
    "doctor --verbose": ALL_CHECKS,
    "doctor --ray": "`rpg doctor` asks a fresh process, which finds the plugin as a worker does",
    "eval --checkpoint": "`rpg eval RUN`, with the run's directory or its global_step_N in place of the script's name",
    "eval --files": "--test FILE...",
    "eval --samples": "as an override: actor_rollout_ref.rollout.val_kwargs.n=K",
    "eval --print": "DRY_RUN=1 prints the configuration",
    "list --task": "`rpg list --method M` or `rpg list --all | grep WORD`",
    "plan --memory": "as an override: rpg.gpu_memory=GB",
    "plan --nodes": "as an override: trainer.nnodes=N",
    "plan --json": "five lines are all; the exit code says whether the run fits (0) or not (1)",
    "plot --title": "there is no HTML page; plot writes pictures, `rpg watch RUN --answers N` shows answers",
    "plot --paper": "it was for the HTML page, which is gone; `rpg table --paper N` has the paper's numbers",
    "reproduce --parallel": "--dry-run prints a command a line, for xargs -d '\\n' -P; then `rpg table DIR --paper N`",
    "score --files": "saved samples have what a reward reads of their rows",
    "score --function": "of config.yaml; in a FILE of --reward the function is named compute_score or reward",
    "score --keywords": "of config.yaml; in a FILE of --reward they are the defaults of the function",
    "score --responses": "`rpg score RUN` scores the answers of a run, rows are tried with a right and a wrong one",
    "score --rows": "five rows are tried",
    "table --json": "--format json",
    "watch --every": "it looks every 2 seconds",
    "verify --json": "the exit code is 1 if a loss fails; the table has the numbers",
    "verify --plot": "docs/mathematics.md has the weights; rpg.objectives.token_loss computes them",
}


def command(name: str) -> ModuleType:
    """The module of a subcommand: rpg/<package>/<name>_command.py."""
    return importlib.import_module(f"rpg.{COMMANDS[name][0]}.{name}_command")


def main(argv: list[str] | None = None) -> int:
    """Run one subcommand; the exit code is the subcommand's, or 2 if it needs an extra of this package."""
    argv = sys.argv[1:] if argv is None else argv
    for stream in (sys.stdout, sys.stderr):  # names or terminals outside UTF-8 must not end the command
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = _main(argv)
        sys.stdout.flush()  # report a closed pipe here, not at exit
        return code
    except KeyboardInterrupt:
        print(f"rpg {argv[0]}: interrupted", file=sys.stderr)
        return 128 + signal.SIGINT
    except BrokenPipeError:  # the reader (head, less) has ended: discard the rest
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except (UserError, OSError) as error:
        message = "\n".join(map(printable, str(error).split("\n")))  # a line for each reason of Refused
    except ImportError as error:
        if (message := version.missing_extra(error)) is None:
            raise
    print(*fitted([f"rpg {argv[0]}: {message}"], 2, sys.stderr), sep="\n", file=sys.stderr)
    return 2


def _main(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="rpg", description="KL-regularised policy gradients for verl.")
    parser.add_argument("--version", action="version", version=f"rpg {metadata.version('rpg-verl')}")
    subparsers = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (_, does, example) in COMMANDS.items():
        subparsers.add_parser(name, help=does, description=f"{does}.", epilog=f"example: {example}")
    if not argv:
        parser.print_help(sys.stderr)
        return 2
    if argv[0] in RETIRED:
        raise UserError(RETIRED[argv[0]])
    for option in (word.partition("=")[0] for word in argv[1:]):
        if gone := RETIRED.get(f"{argv[0]} {option}") or RETIRED.get(f"{argv[0]} {argv[1]} {option}"):
            raise UserError(f"{option}: {gone}")
    if argv[0] not in COMMANDS:
        parser.parse_args(argv)  # --version, --help, or an error
    module, subparser = command(argv[0]), subparsers.choices[argv[0]]  # all of them would import torch for --help
    module.configure(subparser)
    nested = argv[0] == "data"  # has subcommands, and no overrides that may follow an option
    return module.run((subparser.parse_args if nested else subparser.parse_intermixed_args)(argv[1:]))


if __name__ == "__main__":
    sys.exit(main())
