"""`rpg lab`: what matters off-policy, on a problem small enough to be exact (docs/off-policy.md)."""

import argparse
import os
import sys
import time
from pathlib import Path

from rpg.lab.sweeps import sweeps, unique_settings
from rpg.lab.train import Scale

LISTED = ("identity", "gradient", "noise", "fixed_point")  # computed without sampling
QUICK_UPDATES = 128
QUICK_AGES = (0, 4, 16)
GRADIENT, QUICK_GRADIENT = 16, 4  # seeds whose gradients are listed


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg lab`."""
    names = [*LISTED, *(sweep.name for sweep in sweeps(quick=False))]
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

    from rpg.files.atomic import write_whole
    from rpg.lab import bias, fixed_point, report
    from rpg.lab.identity import identity_table
    from rpg.lab.measure import measure_all

    torch.set_num_threads(1)
    started = time.monotonic()
    parts = args.only or [*LISTED, *(sweep.name for sweep in sweeps(args.quick))]
    scale = Scale(seeds=args.seeds, updates=QUICK_UPDATES if args.quick else Scale.updates, seed=args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    page = args.out / report.PAGE
    if page.exists() and report.TITLE not in page.read_bytes():
        print(f"rpg lab: {page}: not written by `rpg lab`; remove it, or give another --out", file=sys.stderr)
        return 2
    quick = args.quick
    if "identity" in parts:
        write_whole(args.out / "identity.csv", identity_table().to_csv(index=False, float_format="%.2g"))
    questions = []
    if "gradient" in parts:
        seeds, ages = (QUICK_GRADIENT, QUICK_AGES) if quick else (GRADIENT, bias.AGES)
        questions.append(report.gradient_question(bias.bias_table(seeds, args.seed, ages)))
    if "noise" in parts:
        betas = bias.NOISE_BETAS[:: 2 if quick else 1]
        table = bias.noise_table(1 if quick else args.seeds, args.seed, bias.NOISE_AGES, betas)
        questions.append(report.noise_question(table))
    if "fixed_point" in parts:
        betas = (0.03, 0.3) if quick else fixed_point.BETAS
        table = fixed_point.fixed_point_table(4 if quick else args.seeds, args.seed, betas)
        questions.append(report.fixed_point_question(table))
    if chosen := [sweep for sweep in sweeps(quick) if sweep.name in parts]:
        settings = unique_settings(chosen)
        print(f"{len(settings)} settings, {scale.seeds} seeds each, in {args.workers} processes", flush=True)
        results = measure_all(settings, scale, args.workers)
        questions += [report.question(sweep, results) for sweep in chosen]
    report.write(args.out, questions, scale)
    print(f"{args.out}: {', '.join(parts)}, in {time.monotonic() - started:.0f} s")
    return 0


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value}: must be at least 1")
    return value
