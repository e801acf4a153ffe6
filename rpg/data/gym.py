"""Problems of reasoning-gym's tasks: `rpg data build reasoning_gym:TASK`. Needs the extra `gym`."""

import ast
import random
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import reasoning_gym
from reasoning_gym.utils import SYSTEM_PROMPTS

from rpg.data.build import Report, distinct_problems
from rpg.data.parquet import Problem
from rpg.data.readers import DataError
from rpg.data.template import QUESTION
from rpg.registry.datasets import GYM
from rpg.rewards.gym import score_of
from rpg.rewards.user_reward import WRONG

TEMPLATE = f"{SYSTEM_PROMPTS['default']}\n{QUESTION}"  # asks for <answer>
ROUNDS = 10  # draws for each wanted problem, before the task has too few


def problems_of(
    task: str, options: Mapping[str, Any], sizes: Mapping[str, int], seed: int, report: Report,
    exclude: Collection[bytes] = (),
) -> list[Problem]:  # fmt: skip
    """Return the first distinct problems of a task: the test split, then the training split.

    Raises DataError if the library refuses the task or its options, if it has fewer problems, or if its rule scores a
    wrong answer like the right one.
    """
    count = sum(sizes.values())
    kept = list(islice(distinct_problems(_drawn(task, options, count, seed), report, exclude), count))
    if len(kept) < count:
        what = f"has {len(kept)} distinct problems in {ROUNDS} x {count} draws"
        raise DataError(f"{GYM}:{task}: {what}; lower --train-size or --test-size, or widen its options with --set")
    return [replace(problem, split="test" if n < sizes["test"] else "train") for n, problem in enumerate(kept)]


def _drawn(task: str, options: Mapping[str, Any], count: int, seed: int) -> Iterator[tuple[str, Problem]]:
    """Yield the library's problems in its order: most tasks draw problem i of seed s from s + i."""
    random.seed(seed)  # list_functions draws from Python's own generator
    for start in range(seed, seed + ROUNDS * count, count or 1):
        try:
            source = reasoning_gym.create_dataset(task, seed=start, size=count, **options)
            for index in range(count):
                place, entry = f"{GYM}:{task}, seed {seed}, problem {start - seed + index}", source[index]
                if score_of(source, WRONG, entry) >= 1.0:
                    raise DataError(f"{place}: the library scores the answer {WRONG!r} 1.0; leave {task} out")
                columns = {GYM: _literal((task, dict(options), entry))}
                yield place, Problem(f"{GYM}/{task}", entry["question"], entry["answer"], "train", columns)
        except DataError:
            raise
        except Exception as error:  # whatever the library raises, such as for its options
            what = f"{type(error).__name__}: {error}"
            raise DataError(f"{GYM}:{task}: {what}; change the task, --set or --seed") from error


def _literal(value: Any) -> str:
    """Return a value as a Python literal, with tuples and keys of any type; raises ValueError if it is none."""
    with np.printoptions(legacy="1.25"):  # 3 for numpy's integer 3
        text = repr(value)
    if ast.literal_eval(text) != value:
        raise ValueError("the entry is no Python literal")
    return text
