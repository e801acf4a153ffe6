"""`rpg plan NAME [--gpu a100] [OVERRIDE...]`: whether a run fits its GPUs, by rpg/plan.py; needs none of them."""

import argparse

from rpg import plan
from rpg.config import flags
from rpg.config.compose import compose
from rpg.config.verl_keys import MODEL
from rpg.diagnostics import UserError
from rpg.gpu_host import visible

GPUS = {"h100": 80, "h200": 141, "a100": 80, "a100-40": 40, "l40s": 48, "a6000": 48, "4090": 24}  # GB


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg plan`."""
    parser.add_argument("script", metavar="NAME", help="launch script or first override, as for `rpg train`")
    flags.configure(parser)
    about = "GPU to plan for (default: the smallest of this machine, else h100); others: rpg.gpu_memory=GB"
    parser.add_argument("--gpu", type=str.lower, choices=GPUS, help=about)


def run(args: argparse.Namespace) -> int:
    """Print the estimate; return 2 without one, 1 if the run does not fit, else 0."""
    here = min((gpu.memory for gpu in visible()), default=GPUS["h100"] * plan.GB)
    memory = GPUS.get(args.gpu) or round(here / plan.GB, 1)
    args.overrides.insert(0, f"rpg.gpu_memory={memory}")  # a typed one wins
    run, _ = compose(*flags.chosen(args))
    if run["trainer.device"] == "cpu":
        raise UserError(f"{args.script} runs on the CPU; `rpg doctor {args.script}` checks this machine")
    if (shape := plan.shape_of(run[f"{MODEL}.path"])) is None:
        remedy = "give the folder of a dense model with --model"
        raise UserError(f"{run.shown(f'{MODEL}.path')}: has no config.json of a decoder without experts; {remedy}")
    fits, lines = plan.estimate(shape, run, run["rpg.gpu_memory"] * plan.GB)
    verdict = f"{'fits' if fits else 'DOES NOT FIT'} {run.devices} x {run['rpg.gpu_memory']:g} GB"
    print(f"{run['trainer.experiment_name']}: {verdict}; {shape.parameters / 1e9:.3g}e9 parameters", *lines, sep="\n  ")
    return 0 if fits else 1
