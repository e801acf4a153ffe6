"""`rpg lab`: what matters off-policy, on a problem small enough to be exact (docs/off-policy.md)."""

import argparse
import os
import sys
import time
from pathlib import Path

from rpg.lab.sweeps import sweeps, unique_settings
from rpg.lab.train import Scale

QUICK_UPDATES = 128
QUICK_AGES = (0, 4, 16)
GRADIENT, QUICK_GRADIENT = 16, 4  # seeds whose gradients are listed
SAID_EVERY = 20  # settings


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg lab`."""
    names = ["identity", *(sweep.name for sweep in sweeps(quick=False))]
    parser.add_argument("--quick", action="store_true", help="fewer values and half the training: a minute")
    parser.add_argument(
        "--only", nargs="+", choices=names, metavar="PART", help=f"these parts alone: {', '.join(names)}"
    )
    parser.add_argument("--out", type=Path, default=Path("lab"), metavar="DIR", help="default: lab")
    parser.add_argument("--seeds", type=_positive, default=64, help="trained at once in every setting (64)")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (0); the same gives the same CSV")
    parser.add_argument("--workers", type=_positive, default=os.cpu_count() or 1, help="processes (one a core)")


def run(args: argparse.Namespace) -> int:
    """Write tables, pictures and page into --out."""
    import torch

    from rpg.lab import bias, report
    from rpg.lab.identity import identity_csv
    from rpg.lab.run import measure_all

    started = time.monotonic()
    found = tuple(sweep for sweep in sweeps(args.quick) if not args.only or sweep.name in args.only)
    settings = unique_settings(found)
    scale = Scale(seeds=args.seeds, updates=QUICK_UPDATES if args.quick else Scale.updates, seed=args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    if not args.only or "identity" in args.only:
        identity = identity_csv()
        (args.out / "identity.csv").write_text(identity)
        print(identity)
    if not found:
        return 0
    print(f"{len(settings)} settings, {scale.seeds} seeds each, in {args.workers} processes", flush=True)

    def tell(done: int) -> None:
        if done % SAID_EVERY == 0:
            print(f"{done} of {len(settings)} after {time.monotonic() - started:.0f} s", file=sys.stderr, flush=True)

    table = {}
    if not args.only:
        torch.set_num_threads(1)
        ages = QUICK_AGES if args.quick else bias.AGES
        table = bias.bias_table(QUICK_GRADIENT if args.quick else GRADIENT, args.seed, ages)
    results = measure_all(settings, scale, args.workers, tell)
    paths = report.write(args.out, found, results, table, scale)
    print(report.summary(found, results))
    print(f"{', '.join(map(str, paths))}, in {time.monotonic() - started:.0f} s")
    return 0


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value}: must be at least 1")
    return value
