"""Exact off-policy experiments on a small problem (docs/off-policy.md).

python -m scripts.studies.lab --quick    in a checkout; the exit code is 1 if an exact choice of pi_old is not exact
"""

import argparse
import os
import sys
import time
from collections.abc import Collection
from pathlib import Path

import torch

from rpg.files.atomic import write_whole
from scripts.studies.lab import bias, fixed_point, report
from scripts.studies.lab.identity import identity_table
from scripts.studies.lab.measure import measure_all
from scripts.studies.lab.staleness import print_choices_of_pi_old
from scripts.studies.lab.sweeps import SWEEPS, unique_settings
from scripts.studies.lab.train import Scale

PARTS = ("pi_old", "identity", "gradient", "noise", "fixed_point", *SWEEPS)  # the first five without sampling


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments."""
    parser.add_argument("--quick", action="store_true", help="fewer values and less training: a minute or two")
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=f"of {', '.join(PARTS)}"
    )
    parser.add_argument("--out", type=Path, default=Path("lab"), metavar="DIR", help="default: lab")
    parser.add_argument("--seeds", type=_positive, default=64, help="trained at once in every setting (64)")
    parser.add_argument("--seed", type=int, default=0, help="of the random numbers (0); the same gives the same CSV")
    parser.add_argument("--workers", type=_positive, default=os.cpu_count() or 1, help="processes (one a core)")


def run(args: argparse.Namespace) -> int:
    """Write tables and pictures into --out; return 2 if --out has other files with such names."""
    torch.set_num_threads(1)
    started = time.monotonic()
    quick, seed, out = args.quick, args.seed, args.out
    present = {path.name for path in out.iterdir()} if out.is_dir() else set()
    written = {f"{part}.{kind}" for part in PARTS for kind in ("csv", "png")}
    try:
        if foreign := present - written:
            raise FileExistsError(f"holds {min(foreign)}, which is not one of the laboratory")
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        print(f"--out {out}: {error.strerror or error}; give another", file=sys.stderr)
        return 2
    failures = print_choices_of_pi_old(50, 12, 0.1, seed) if _begins("pi_old", args.only) else []
    if _begins("identity", args.only):
        write_whole(out / "identity.csv", identity_table().to_csv(index=False, float_format="%.2g"))
    if _begins("gradient", args.only):
        table = bias.bias_table(4, seed, (0, 4, 16)) if quick else bias.bias_table(16, seed)
        report.write(out, "gradient", table, report.gradient_figure(table))
    if _begins("noise", args.only):
        table = bias.noise_table(1, seed) if quick else bias.noise_table(args.seeds, seed)
        report.write(out, "noise", table, report.noise_figure(table))
    if _begins("fixed_point", args.only):
        betas = (0.03, 0.3) if quick else fixed_point.BETAS
        table = fixed_point.fixed_point_table(4 if quick else args.seeds, seed, betas)
        report.write(out, "fixed_point", table, report.fixed_point_figure(table))
    chosen = {name: [grid.quick() if quick else grid for grid in SWEEPS[name]] for name in SWEEPS if name in args.only}
    if chosen:
        settings = unique_settings(grid for grids in chosen.values() for grid in grids)
        print(f"{len(settings)} settings, {args.seeds} seeds each, in {args.workers} processes", flush=True)
        scale = Scale(seeds=args.seeds, updates=128 if quick else Scale.updates, seed=seed)
        results = measure_all(settings, scale, args.workers)
        for name, grids in chosen.items():
            report.write(out, name, report.sweep_table(grids, results), report.sweep_figure(grids, results))
    print(f"{out}: {', '.join(args.only)}, in {time.monotonic() - started:.0f} s")
    if failures:
        print(f"FAILED: {', '.join(failures)}")
    return 1 if failures else 0


def _begins(part: str, chosen: Collection[str]) -> bool:
    """Return whether a part is chosen, and say that it begins."""
    if part in chosen:
        print(f"{part} ...", flush=True)
    return part in chosen


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"{value}: must be at least 1")
    return value


def main(argv: list[str] | None = None) -> int:
    """Parse the arguments and run."""
    parser = argparse.ArgumentParser(prog="python -m scripts.studies.lab", description=__doc__)
    configure(parser)
    return run(parser.parse_args(argv))


if __name__ == "__main__":
    sys.exit(main())
