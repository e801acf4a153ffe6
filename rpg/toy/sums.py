"""The toy task and model, as files of a directory: sums of two numbers, in the schema and template of the paper's sets.

The model can learn them from rewards on a laptop, so that the whole stack can be tested.
"""

import hashlib
import random
import shutil
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from rich.console import Console

from rpg.data.parquet import Problem, write_set
from rpg.registry.datasets import BY_NAME

TOY = BY_NAME["toy"]
# a Qwen2 of half a million parameters, made by `python -m scripts.toy_model`
MODEL = Path(__file__).with_name("model")
SIZES = {"train": 2048, "test": 256}  # problems per split
OPERANDS = 100
TEST_ONE_IN = 8  # share of the operand pairs in the test split


def prepare(directory: Path, console: Console) -> None:
    """Put toy data and model into `directory`; existing files are kept. Raises OSError if a file cannot be written."""
    if not all((directory / file).is_file() for file in TOY.files):
        problems = (toy_problems(split, seed=0, count=count) for split, count in SIZES.items())
        write_set(directory, TOY, [*chain.from_iterable(problems)])
    if not (directory / "model").is_dir():
        partial = directory / ".model.partial"
        shutil.copytree(MODEL, partial, dirs_exist_ok=True)  # of a killed start
        partial.rename(directory / "model")


def toy_problems(split: str, seed: int, count: int) -> Iterator[Problem]:
    """Yield `count` distinct sums of operands 0..99, drawn from one split. Raises ValueError if it has fewer."""
    pairs = [(a, b) for a in range(OPERANDS) for b in range(OPERANDS) if split_of(a, b) == split]
    for first, second in random.Random(f"{seed}/{split}").sample(pairs, count):
        yield Problem(TOY.data_source, f"What is {first} + {second}?", str(first + second), split)


def split_of(first: int, second: int) -> str:
    """Return the split of a pair, independent of the seed and the order of the operands.

    48 + 27 and 27 + 48 are in the same split.
    """
    pair = f"{min(first, second)}+{max(first, second)}".encode()
    bucket = int.from_bytes(hashlib.sha256(pair).digest()[:8], "big") % TEST_ONE_IN
    return "test" if bucket == 0 else "train"
