"""The toy task: sums of two numbers, in the same schema and template as the paper's problem sets.

A model small enough for a laptop learns it from rewards alone, so the whole stack can be run for real.
"""

import hashlib
import random
from collections.abc import Iterator

from rpg.data.parquet import Problem

DATA_SOURCE = "toy_sum"
SIZES = {"train": 2048, "test": 256}  # problems of a split
MAX_OPERANDS = 1000  # all pairs are listed, which takes a second for so many
TEST_ONE_IN = 8  # share of the operand pairs kept for the test split


def problem_text(first: int, second: int) -> str:
    """Return the question, for example "What is 27 + 48?"."""
    return f"What is {first} + {second}?"


def split_of(first: int, second: int) -> str:
    """Return the split that a pair belongs to, whatever the seed and the order of the operands.

    48 + 27 follows 27 + 48, so no test sum is in the training file with its operands swapped.
    """
    pair = f"{min(first, second)}+{max(first, second)}".encode()
    bucket = int.from_bytes(hashlib.sha256(pair).digest()[:8], "big") % TEST_ONE_IN
    return "test" if bucket == 0 else "train"


def toy_problems(split: str, seed: int, count: int, low: int = 0, high: int = 99) -> Iterator[Problem]:
    """Yield `count` distinct sums with both operands in low..high, drawn from one split.

    Raises ValueError where the range holds fewer than `count` pairs of that split.
    """
    if not 0 <= low <= high:
        raise ValueError(f"toy operands are {low}..{high}; give 0 <= low <= high")
    operands = range(low, high + 1)
    if len(operands) > MAX_OPERANDS:
        raise ValueError(f"toy operands are {low}..{high}: --high may be at most {low + MAX_OPERANDS - 1}; lower it")
    pairs = [(a, b) for a in operands for b in operands if split_of(a, b) == split]
    if count > len(pairs):
        raise ValueError(
            f"toy {split} split: {count} rows asked for, operands {low}..{high} give {len(pairs)}; "
            "ask for fewer rows or widen the operand range"
        )
    for first, second in random.Random(f"{seed}/{split}").sample(pairs, count):
        yield Problem(DATA_SOURCE, problem_text(first, second), str(first + second), split)
