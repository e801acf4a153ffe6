"""Problems of reasoning-gym's tasks: `rpg data build reasoning_gym:TASK`. Needs the extra `gym`."""

import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import reasoning_gym
from reasoning_gym.utils import SYSTEM_PROMPTS

from rpg.data.parquet import Problem
from rpg.data.tables import distinct_problems
from rpg.data.template import QUESTION
from rpg.diagnostics import UserError
from rpg.registry.datasets import GYM

TEMPLATE = f"{SYSTEM_PROMPTS['default']}\n{QUESTION}"  # asks for <answer>
SIZES = {"train": 2048, "test": 256}
DRAWS = 10  # for each wanted problem, before the task has too few


def problems_of(
    task: str, options: Mapping[str, Any], sizes: Mapping[str, int | None], seed: int, exclude: Collection[bytes] = ()
) -> list[Problem]:
    """Return the first distinct problems of a task: the test split, then the training split.

    sizes: of the splits; None: as SIZES.

    Raises UserError if the library refuses the task or its options, or if it has fewer problems.
    """
    wanted = {split: SIZES[split] if size is None else size for split, size in sizes.items()}
    count = sum(wanted.values())
    drawn = ((f"{GYM}:{task}, problem {n}", to_problem(task, options, entry))
             for n, entry in enumerate(entries(task, options, count, seed)))  # fmt: skip
    kept = distinct_problems(drawn, exclude, count)
    if len(kept) < count:
        what = f"has {len(kept)} distinct problems in {DRAWS} x {count} draws"
        raise UserError(f"{GYM}:{task}: {what}; lower --train-size or --test-size, or widen its options with --set")
    return [replace(problem, split="test" if n < wanted["test"] else "train") for n, problem in enumerate(kept)]


def entries(task: str, options: Mapping[str, Any], count: int, seed: int) -> Iterator[dict[str, Any]]:
    """Yield the library's entries in its order: most tasks draw entry i of seed s from s + i."""
    random.seed(seed)  # list_functions draws from Python's own generator
    try:
        yield from reasoning_gym.create_dataset(task, seed=seed, size=max(1, DRAWS * count), **options)
    except Exception as error:  # whatever the library raises
        raise UserError(f"{GYM}:{task}: {type(error).__name__}: {error}; change the task or --set") from error


def to_problem(task: str, options: Mapping[str, Any], entry: dict[str, Any]) -> Problem:
    """Return the problem of an entry, with what its score needs as a Python literal, which unlike JSON has tuples."""
    with np.printoptions(legacy="1.25"):  # 3 for numpy's integer 3
        row = repr((task, dict(options), entry))
    return Problem(f"{GYM}/{task}", entry["question"], entry["answer"], "train", {GYM: row})
