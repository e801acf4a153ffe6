"""`rpg plan NAME [--gpu a100] [OVERRIDE...]`: whether a run fits its GPUs, by rpg/plan.py; needs no GPU."""

import argparse

from rpg import plan
from rpg.config import flags
from rpg.config.compose import of_script
from rpg.config.keys import KEYS
from rpg.diagnostics import BadSetting
from rpg.registry import recipe

GPUS = {"h100": 80, "h200": 141, "a100": 80, "a100-40": 40, "l40s": 48, "a6000": 48, "4090": 24}  # GB


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg plan`."""
    parser.add_argument("script", metavar="NAME", help="a name of `rpg list`, or the path of its script")
    flags.configure(parser)
    about = f"default: h100; another as an override, {KEYS['gpu_memory']}=GB"
    parser.add_argument("--gpu", type=str.lower, choices=GPUS, default="h100", help=about)


def run(args: argparse.Namespace) -> int:
    """Print the estimate; return 2 without one, 1 if the run does not fit, else 0."""
    memory = f"{KEYS['gpu_memory']}={GPUS[args.gpu]}"  # an override of it wins
    s = of_script(recipe.find(args.script), [memory, *flags.overrides(args), *args.overrides]).settings
    if s.device == "cpu":
        raise BadSetting(f"{args.script} runs on the CPU; `rpg doctor {args.script}` checks this machine")
    if (shape := plan.shape_of(s.model)) is None:
        raise BadSetting(f"{s.shown('model')}: has no config.json; set MODEL_PATH to a local directory")
    fits, lines = plan.estimate(shape, s, s.gpu_memory * plan.GB)
    verdict = f"{'fits' if fits else 'DOES NOT FIT'} {s.devices} x {s.gpu_memory:g} GB"
    print(f"{s.run_name}: {verdict}; {shape.parameters / 1e9:.3g}e9 parameters", *lines, sep="\n  ")
    return 0 if fits else 1
