"""`rpg plan SCRIPT [--gpu h100] [--memory GB] [--nodes N]`: estimate memory, disk and time of a run.

It computes with rpg/plan/memory.py and estimate.py, needs no GPU, and has not been compared with one.
"""

import argparse
import json
import sys

from rpg.config.compose import of_script
from rpg.config.keys import KEYS
from rpg.diagnostics import fitted
from rpg.plan.estimate import GB, GPUS
from rpg.plan.run_plan import INDENT, as_json, chosen, lines, made_for
from rpg.registry import recipe


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg plan`."""
    parser.add_argument("script", help="a launch script, by name or path")
    parser.add_argument(
        "overrides", nargs="*", default=[], metavar="OVERRIDE", help="Hydra overrides, as for the script"
    )
    parser.add_argument("--gpu", choices=list(GPUS), help="default: h100")
    parser.add_argument("--memory", type=float, metavar="GB", help="of a GPU unknown to --gpu, or of a part of one")
    parser.add_argument("--nodes", type=int, metavar="N", help="nodes (default: the script's, NNODES)")
    parser.add_argument("--json", action="store_true", help="the plan as JSON, in bytes and seconds")


def run(args: argparse.Namespace) -> int:
    """Print the plan; return 2 without an estimate, 1 if a phase or the KV cache does not fit the GPU, else 0."""
    try:
        gpu = chosen(args.gpu, args.memory)
        more = [f"{KEYS['gpu_memory']}={gpu.memory / GB:g}"]
        if args.nodes is not None:
            more.append(f"{KEYS['nodes']}={args.nodes}")
        configuration = of_script(recipe.find(args.script), [*args.overrides, *more])
        if configuration.settings.device == "cpu":
            remedy = f"`rpg doctor {args.script}` checks this machine, docs/cpu.md has time and memory"
            raise ValueError(f"{args.script} runs on the CPU, and the estimates are for GPUs; {remedy}")
        plan = made_for(configuration.config, gpu)
    except ValueError as error:
        print(f"rpg plan: {error}", file=sys.stderr)
        return 2
    if args.json:
        print(json.dumps(as_json(plan), indent=2))
    else:
        print(*fitted(lines(plan), INDENT), sep="\n")
    return 0 if plan.fits else 1
