"""Compute the laboratory's exact tables: expected gradients and fixed points, by enumeration, on a small problem.

python -m scripts.studies.lab                   in a checkout; writes docs/results/lab.parquet, half an hour on one core
python -m scripts.studies.lab --quick --out F   fewer seeds, ages and betas, half a minute
python -m scripts.studies.lab --only scope      this question alone; the others' numbers stay as they are
python -m scripts.studies lab                   prints the tables
"""

import argparse
import sys
import time
from pathlib import Path

import pandas as pd
import torch

from scripts.studies.common import RESULTS
from scripts.studies.lab.bias import bias_table, noise_table
from scripts.studies.lab.fixed_point import fixed_point_table
from scripts.studies.lab.identity import identity_table
from scripts.studies.lab.pi_old import choice_table
from scripts.studies.lab.scope import CELLS, scope_table

QUESTIONS = ("identity", "pi_old", "gradient", "noise", "fixed_point", "scope")
SEEDS = 64  # 16 for the bias


def main(argv: list[str] | None = None) -> int:
    """Compute all tables and write them into one file, with the column `question`."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.studies.lab", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--only", choices=QUESTIONS, metavar="QUESTION", help=f"of {', '.join(QUESTIONS)}")
    parser.add_argument("--out", type=Path, default=RESULTS / "lab.parquet", metavar="FILE")
    args = parser.parse_args(argv)
    torch.set_num_threads(1)  # sums depend on the number of threads
    questions = {
        "identity": identity_table,
        "pi_old": lambda: choice_table(2, 4) if args.quick else choice_table(),
        "gradient": lambda: bias_table(2, ages=(0, 4)) if args.quick else bias_table(SEEDS // 4),
        "noise": lambda: noise_table(1 if args.quick else SEEDS),
        "fixed_point": lambda: fixed_point_table(2, betas=(0.3,)) if args.quick else fixed_point_table(SEEDS),
        "scope": lambda: scope_table(2, cells=CELLS[:1]) if args.quick else scope_table(SEEDS),
    }
    tables = []
    if args.only:
        kept = pd.read_parquet(args.out)
        tables.append(kept[kept.question != args.only])
        questions = {args.only: questions[args.only]}
    for question, compute in questions.items():
        started = time.monotonic()
        tables.append(compute().assign(question=question))
        print(f"{question}: {time.monotonic() - started:.0f} s", flush=True)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    pd.concat(tables, ignore_index=True).to_parquet(args.out, compression="zstd", index=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
