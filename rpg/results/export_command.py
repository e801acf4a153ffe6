"""`rpg export CKPT`: convert a checkpoint to a Hugging Face model directory, or to a checkpoint of other ranks."""

import argparse
import subprocess
from pathlib import Path

from rpg.arguments import at_least
from rpg.diagnostics import UserError
from rpg.results.checkpoints import export, find_checkpoint


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg export`."""
    which = "run directory (its newest complete one) or global_step_N in it"
    parser.add_argument("checkpoint", type=Path, metavar="CKPT", help=which)
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: hf in the global_step_N directory")
    ranks = "write a checkpoint for N ranks (GPUs x nodes) into --out instead, to resume from"
    parser.add_argument("--ranks", type=at_least(1), metavar="N", help=ranks)


def run(args: argparse.Namespace) -> int:
    """Merge; return 2 without a checkpoint or a place for the model, 1 if the merger fails."""
    if args.ranks and not args.out:
        raise UserError(f"--ranks {args.ranks}: give --out, too")
    checkpoint = find_checkpoint(args.checkpoint)
    out = args.out or checkpoint / "hf"
    if out.exists() and not (out.is_dir() and not any(out.iterdir())):
        raise UserError(f"{out}: not an empty directory; remove it or give another --out")
    if args.ranks:
        from rpg.results.reshard import reshard

        reshard(checkpoint, out, args.ranks)
        print(f"{out / checkpoint.name}: for {args.ranks} ranks, from {checkpoint}")
        return 0
    try:
        export(checkpoint / "actor", out)
    except subprocess.CalledProcessError:
        return 1  # the merger has said why
    print(f"{out}: exported from {checkpoint}")
    return 0
