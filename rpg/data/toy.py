"""The toy task: sums of two numbers, in the same schema and template as the paper's problem sets.

A model for a laptop can learn it from rewards, so that the whole stack can be tested.
"""

import hashlib
import random
from collections.abc import Iterator

from rpg.data.parquet import Problem
from rpg.registry.datasets import BY_NAME

DATA_SOURCE = BY_NAME["toy"].data_source
SIZES = {"train": 2048, "test": 256}  # default numbers of problems per split
MAX_OPERANDS = 1000  # all pairs are enumerated, which takes a second at this size
TEST_ONE_IN = 8  # share of the operand pairs in the test split


def problem_text(first: int, second: int) -> str:
    """Return the question, for example "What is 27 + 48?"."""
    return f"What is {first} + {second}?"


def split_of(first: int, second: int) -> str:
    """Return the split of a pair, independent of the seed and the order of the operands.

    48 + 27 and 27 + 48 are in the same split.
    """
    pair = f"{min(first, second)}+{max(first, second)}".encode()
    bucket = int.from_bytes(hashlib.sha256(pair).digest()[:8], "big") % TEST_ONE_IN
    return "test" if bucket == 0 else "train"


def toy_problems(split: str, seed: int, count: int, low: int = 0, high: int = 99) -> Iterator[Problem]:
    """Yield `count` distinct sums with both operands in low..high, drawn from one split.

    Raises ValueError if the range has fewer than `count` pairs of that split.
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
