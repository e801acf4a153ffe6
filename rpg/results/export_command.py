"""`rpg export CKPT`: convert a checkpoint to a Hugging Face model directory, or to a checkpoint of other ranks."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from rpg.arguments import at_least
from rpg.results.checkpoints import export, find_checkpoint
from rpg.results.messages import ResultsError


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg export`."""
    parser.add_argument(
        "checkpoint", type=Path, metavar="CKPT", help="run directory (its newest complete one) or global_step_N in it"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: hf in the global_step_N directory")
    parser.add_argument(
        "--ranks",
        type=at_least(1),
        metavar="N",
        help="write a checkpoint for N ranks (GPUs x nodes) into --out instead, to resume from",
    )


def run(args: argparse.Namespace) -> int:
    """Merge; return 2 without a checkpoint or a place for the model, 1 if the merger fails."""
    checkpoint, remarks = find_checkpoint(args.checkpoint)
    out = args.out or checkpoint / "hf"
    if os.path.lexists(out) and not (out.is_dir() and not any(out.iterdir())):
        raise ResultsError(f"{out}: not an empty directory; remove it or give another --out")
    for remark in remarks:
        print(f"rpg export: {remark}", file=sys.stderr)
    if args.ranks is not None:
        if args.out is None:
            raise ResultsError(f"--ranks {args.ranks}: give --out, too")
        from rpg.results.reshard import reshard

        reshard(checkpoint, out, args.ranks)
        print(f"{out / checkpoint.name}: for {args.ranks} ranks, from {checkpoint}")
        return 0
    try:
        export(checkpoint / "actor", out)
    except subprocess.CalledProcessError as error:
        print(error.output, f"rpg export: {error}", sep="\n", file=sys.stderr)
        return 1
    print(f"{out}: exported from {checkpoint}")
    return 0
