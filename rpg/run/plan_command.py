"""`rpg plan NAME [--gpu h100] [--memory GB] [--nodes N]`: estimate memory and disk of a run.

It computes with rpg/plan.py and needs no GPU.
"""

import argparse
import json

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
    gpu = parser.add_mutually_exclusive_group()
    gpu.add_argument("--gpu", type=known_gpu, choices=list(GPUS), default="h100", help="default: h100")
    gpu.add_argument("--memory", type=float, metavar="GB", help="of a GPU unknown to --gpu, or of a part of one")
    parser.add_argument("--nodes", type=int, metavar="N", help="nodes (default: the script's, NNODES)")
    parser.add_argument("--json", action="store_true", help="the plan as JSON, in bytes and tokens")


def known_gpu(name: str) -> str:
    """Return the name of a GPU. Raises ArgumentTypeError, which says what to use for another."""
    if (name := name.lower()) not in GPUS:
        raise argparse.ArgumentTypeError(f"{name} is not among {', '.join(GPUS)}; give its GB, as --memory 24")
    return name


def run(args: argparse.Namespace) -> int:
    """Print the plan; return 2 without an estimate, 1 if a step or the KV cache does not fit the GPU, else 0."""
    memory = GPUS[args.gpu] if args.memory is None else args.memory
    if not 0 < memory < 1e6:
        raise BadSetting(f"--memory {memory:g}: must be above 0 and below 1e6 GB")
    more = [f"{KEYS['gpu_memory']}={memory:g}"]
    if args.nodes is not None:
        more.append(f"{KEYS['nodes']}={args.nodes}")
    s = of_script(recipe.find(args.script), [*flags.overrides(args), *args.overrides, *more]).settings
    if s.device == "cpu":
        remedy = f"`rpg doctor {args.script}` checks this machine, docs/train_your_own.md has time and memory"
        raise BadSetting(f"{args.script} runs on the CPU, and the estimates are for GPUs; {remedy}")
    shape = plan.shape_of(s.model)
    if shape is None:
        remedy = "set MODEL_PATH to a local directory"
        raise BadSetting(f"{s.shown('model')}: has no config.json; {remedy}")
    phase, size = plan.device_bytes(shape, s, memory * plan.GB)
    cache = plan.kv_tokens(shape, s, memory * plan.GB)
    numbers = {
        "run": s.run_name,
        "gpus": s.devices,
        "gpu_memory": memory * plan.GB,
        "parameters": shape.parameters,
        "phase": phase,
        "memory": size,
        "kv_tokens": round(cache),
        "host_memory": plan.host_bytes(shape, s),
        "checkpoint": plan.checkpoint_bytes(shape, s),
        "checkpoints": plan.checkpoints_at_once(s),
        "fits": size <= memory * plan.GB and cache >= s.length,  # vLLM requires a cache for one sequence
    }
    print(json.dumps(numbers, indent=2) if args.json else text(numbers, s.length))
    return 0 if numbers["fits"] else 1


def text(numbers: dict, length: int) -> str:
    """Return the plan as lines. length: of a prompt and response, in tokens."""
    bytes_of = ("gpu_memory", "memory", "host_memory", "checkpoint")
    size = {name: f"{numbers[name] / plan.GB:.3g} GB" for name in bytes_of}
    tokens = numbers["kv_tokens"]
    return "\n".join((
        f"{numbers['run']}: {numbers['parameters'] / 1e9:.3g}e9 parameters; GPUs: {numbers['gpus']}",
        f"  GPU memory   {size['memory']} of {size['gpu_memory']}, in the {numbers['phase']}",
        f"  KV cache     {tokens} tokens a GPU: {tokens // length} sequences of full length",
        f"  host memory  {size['host_memory']} a node",
        f"  disk         {numbers['checkpoints']} checkpoints at once of {size['checkpoint']}",
        "fits" if numbers["fits"] else "DOES NOT FIT",
    ))  # fmt: skip
