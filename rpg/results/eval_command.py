"""`rpg eval NAME`: validate a checkpoint (or the untrained model), without training, through a launch script.

It adds Hydra overrides to the script's, prints the command, runs it and shows the table. With a checkpoint the settings
are those of its run: reward function, lengths, template, model, validation files. `rpg score` scores saved samples
without generating any.
"""

import argparse
import shlex
from pathlib import Path

from rpg.arguments import at_least
from rpg.config.keys import KEYS
from rpg.files.atomic import METRICS
from rpg.logged import is_validation
from rpg.overrides import override
from rpg.registry import recipe
from rpg.results.checkpoints import find_checkpoint
from rpg.results.evaluation import command_of
from rpg.results.formats import show
from rpg.results.messages import ResultsError, exit_code
from rpg.results.runs import load_runs
from rpg.results.table import build_table
from rpg.rewards import JUDGES
from rpg.rewards.user_function import find_reward
from rpg.run.processes import call
from rpg.run.start import dry_run


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg eval`."""
    parser.add_argument("script", metavar="NAME", help="the training's script of recipe/rpg, or its path")
    parser.add_argument("overrides", nargs="*", default=[], metavar="OVERRIDE", help="further Hydra overrides")
    which = "run directory (its newest complete checkpoint) or global_step_N in it (default: the untrained model)"
    parser.add_argument("--checkpoint", type=Path, metavar="DIR", help=which)
    default = "(default: the run's, without a checkpoint the script's)"
    parser.add_argument(
        "--files", "--test", nargs="+", type=Path, metavar="FILE", help=f"parquet files to validate on {default}"
    )
    parser.add_argument("--train", type=Path, metavar="FILE", help="if the training file moved: verl opens it as well")
    parser.add_argument("--model", metavar="M", help=f"model directory or hub name {default}")
    parser.add_argument("--samples", type=at_least(1), metavar="K", help=f"answers to each row {default}")
    scorer = parser.add_mutually_exclusive_group()
    scorer.add_argument("--judge", choices=JUDGES, help=f"docs/judges.md {default}")
    scorer.add_argument("--reward", metavar="FILE", help=f"Python file with your reward function {default}")
    where = "new run directory for the results (default: RUN/eval-global_step_N, or checkpoints/NAME-untrained)"
    parser.add_argument("--out", type=Path, metavar="DIR", help=where)
    parser.add_argument("--print", action="store_true", dest="only_print", help="print the command, do not run it")


def run(args: argparse.Namespace) -> int:
    """Run the evaluation and print its table; return the script's exit code if it fails, 2 if it is rejected.

    Returns 1 if a part of the result was left out of the table, 2 if everything was.
    """
    if Path(args.script).is_dir():
        raise ResultsError(f"{args.script}: is a directory; use rpg eval NAME --checkpoint {args.script}")
    script = recipe.find(args.script)
    checkpoint = find_checkpoint(args.checkpoint, contents=False)[0] if args.checkpoint else None
    default = (
        checkpoint.with_name(f"eval-{checkpoint.name}") if checkpoint else Path(f"checkpoints/{script.name}-untrained")
    )
    out = args.out or default
    if (out / METRICS).exists():  # which would be overwritten
        raise ResultsError(f"{out}: is already a run; give a new directory (--out)")
    overrides = [f"judge={args.judge}"] if args.judge else []
    if args.reward:
        overrides.append(override(KEYS["reward"], find_reward(args.reward).file))
    if args.model:
        is_local = Path(args.model).expanduser().is_dir()
        overrides.append(override(KEYS["model"], Path(args.model).expanduser().absolute() if is_local else args.model))
    if args.samples is not None:
        overrides.append(f"{KEYS['val_n']}={args.samples}")
    if args.files:
        overrides.append(override(KEYS["val_files"], [file.absolute() for file in args.files]))
        overrides.append(f"{KEYS['val_samples']}=-1")  # of the training's files, which may be larger
    if args.train:
        overrides.append(override(KEYS["train_files"], [args.train.absolute()]))
    command = command_of(script, checkpoint, out, [*overrides, *args.overrides])
    print(shlex.join(command), flush=True)
    if args.only_print:
        return 0
    if (code := call(command)) or dry_run():
        return code
    table = build_table(*load_runs([out], is_validation))
    show(table)
    runs = [checkpoint.parent, out] if checkpoint else [out]
    print(f"next: {shlex.join(['rpg', 'table', *map(str, runs)])}")
    print(f"or:   {shlex.join(['rpg', 'score', str(out), '--reward', 'FILE.py'])}  # its answers by another function")
    return exit_code(table.notes)
