"""Compute the laboratory's exact tables: expected gradients and rewards, on a small problem.

python -m scripts.studies.lab                   in a checkout; writes docs/results/lab.parquet, an hour on one core
python -m scripts.studies.lab --quick --out F   fewer seeds and ages, half a minute
python -m scripts.studies.lab --only scope      this question alone; the others' numbers stay as they are
python -m scripts.studies lab                   prints the tables
"""

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pandas as pd
import torch

from scripts.studies.common import RESULTS
from scripts.studies.lab.bias import bias_table
from scripts.studies.lab.identity import identity_table
from scripts.studies.lab.rates import RATES, rates_table
from scripts.studies.lab.scope import CELLS, scope_table

SEEDS = 64  # 16 for the bias
QUESTIONS: dict[str, tuple[Callable[[], pd.DataFrame], Callable[[], pd.DataFrame]]] = {  # and the quick form
    "identity": (identity_table, identity_table),
    "gradient": (partial(bias_table, SEEDS // 4), partial(bias_table, 2, ages=(0, 4))),
    "rates": (partial(rates_table, SEEDS), partial(rates_table, 2, (6,), RATES[4:5])),
    "scope": (partial(scope_table, SEEDS), partial(scope_table, 2, cells=CELLS[:1])),
}


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
    tables = []
    if args.only:
        kept = pd.read_parquet(args.out)
        tables.append(kept[kept.question != args.only])
    for question in [args.only] if args.only else QUESTIONS:
        started = time.monotonic()
        tables.append(QUESTIONS[question][args.quick]().assign(question=question))
        print(f"{question}: {time.monotonic() - started:.0f} s", flush=True)
    args.out.parent.mkdir(parents=True, exist_ok=True)
    pd.concat(tables, ignore_index=True).to_parquet(args.out, compression="zstd", index=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
