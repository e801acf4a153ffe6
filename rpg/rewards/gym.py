"""reasoning-gym's own score of an answer, in a child of the sandbox (sandbox.py). Needs the extra `gym`."""

import ast
from functools import cache
from typing import Any

import reasoning_gym
from reasoning_gym.utils import extract_answer as tagged_answer

from rpg.rewards.extract import extract_answer


def answer(response: str, row: str) -> tuple[float, str]:
    """Return the library's score of a response, 0 to 1, and its answer: in the last <answer> tags, else as extract.py.

    row: task, options and entry as a Python literal.
    """
    stated = tagged_answer(response)
    stated = extract_answer(response) if stated is None else stated
    task, options, entry = ast.literal_eval(row)
    library = scorer(task, repr(options))  # fails if the installed version has not this task
    try:
        return float(library.score_answer(stated or None, entry)), stated
    except Exception:  # noqa: BLE001  # of the library's rule, for example int("abc")
        return 0.0, stated


@cache
def scorer(task: str, options: str) -> Any:
    """Return the library's data set with these options, which scores the answers to its problems."""
    return reasoning_gym.create_dataset(task, seed=0, **ast.literal_eval(options))
