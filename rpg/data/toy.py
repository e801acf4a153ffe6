"""The toy task: sums of two numbers, in the same schema and template as the paper's problem sets.

A model for a laptop can learn it from rewards, so that the whole stack can be tested.
"""

import hashlib
import random
from collections.abc import Iterator

from rpg.data.parquet import Problem
from rpg.data.readers import DataError
from rpg.registry.datasets import BY_NAME

DATA_SOURCE = BY_NAME["toy"].data_source
SIZES = {"train": 2048, "test": 256}  # default numbers of problems per split
OPERANDS = 100
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


def toy_problems(split: str, seed: int, count: int) -> Iterator[Problem]:
    """Yield `count` distinct sums of operands 0..99, drawn from one split. Raises DataError if it has fewer."""
    pairs = [(a, b) for a in range(OPERANDS) for b in range(OPERANDS) if split_of(a, b) == split]
    if count > len(pairs):
        raise DataError(f"toy: the {split} split has {len(pairs)} problems; lower --{split}-size {count}")
    for first, second in random.Random(f"{seed}/{split}").sample(pairs, count):
        yield Problem(DATA_SOURCE, problem_text(first, second), str(first + second), split)
