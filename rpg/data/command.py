"""`rpg data build` and `rpg data check`."""

import argparse
import sys
from pathlib import Path

from rpg.data import toy
from rpg.data.schema import repeated_rows, write_parquet


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg data`."""
    actions = parser.add_subparsers(dest="action", required=True, metavar="ACTION")
    build = actions.add_parser("build", help="write the parquet file of one problem set")
    build.add_argument("name", choices=["toy"])
    build.add_argument("--out", type=Path, default=Path("data"), help="folder to write to (default: data)")
    build.add_argument("--repeat", type=int, default=1, help="write each problem K times (default: 1)")
    group = build.add_argument_group("toy task")
    group.add_argument("--train-size", type=int, default=2048, help="training rows (default: 2048)")
    group.add_argument("--test-size", type=int, default=256, help="test rows (default: 256)")
    group.add_argument("--low", type=int, default=0, help="smallest operand (default: 0)")
    group.add_argument("--high", type=int, default=99, help="largest operand (default: 99)")
    group.add_argument("--seed", type=int, default=0, help="which pairs are drawn (default: 0)")


def run(args: argparse.Namespace) -> int:
    """Carry out the parsed command; 0 where it succeeded."""
    try:
        return build_toy(args)
    except ValueError as error:
        print(f"rpg data build {args.name}: {error}", file=sys.stderr)
        return 1


def build_toy(args: argparse.Namespace) -> int:
    """Write toy_train.parquet and toy_test.parquet."""
    for split, size in (("train", args.train_size), ("test", args.test_size)):
        problems = toy.toy_problems(split, args.seed, size, args.low, args.high)
        path = args.out / f"toy_{split}.parquet"
        rows = write_parquet(repeated_rows(problems, args.repeat), path)
        print(f"{path}: {rows} rows")
    return 0
