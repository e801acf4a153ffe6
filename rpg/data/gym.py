"""Training and test files of reasoning-gym's tasks: `rpg data build reasoning_gym:TASK`. Needs the extra `gym`."""

import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import yaml

from rpg.data.build import Report, distinct_problems
from rpg.data.parquet import Problem
from rpg.data.readers import DataError
from rpg.data.template import QUESTION
from rpg.diagnostics import did_you_mean
from rpg.registry.datasets import GYM
from rpg.rewards.gym import COLUMN, PROMPT, TASKS, entry_text, reasoning_gym, score_of
from rpg.rewards.user_reward import WRONG

TEMPLATE = f"{PROMPT}\n{QUESTION}"
ROUNDS = 10  # draws for each wanted problem, before the task has too few
MIXTURE = "composite"  # the library's mixture of tasks


def tasks_of(name: str) -> list[str]:
    """Return the tasks of reasoning_gym:TASK[,TASK...]. Raises DataError for none, or one that the library lacks."""
    tasks = [task for task in dict.fromkeys(name.partition(":")[2].split(",")) if task]
    known = sorted(TASKS.keys() - {MIXTURE})
    if not tasks:
        raise DataError(f"name a task, as {GYM}:chain_sum, or several, separated by commas: {', '.join(known)}")
    if unknown := [task for task in tasks if task not in known]:
        raise DataError(f"{unknown[0]}: reasoning-gym has no such task; {did_you_mean(unknown[0], known, 0.0)}")
    return tasks


def options_of(tasks: Sequence[str], settings: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return task -> the options of texts KEY=VALUE, or TASK.KEY=VALUE for one of several tasks.

    Raises DataError for another text.
    """
    options: dict[str, dict[str, Any]] = {task: {} for task in tasks}
    for text in settings:
        name, equals, value = text.partition("=")
        task, dot, key = name.rpartition(".")
        if not equals or (dot and task not in options) or (not dot and len(tasks) > 1) or key in ("seed", "size"):
            form = "KEY=VALUE" if len(tasks) == 1 else f"TASK.KEY=VALUE, as {tasks[0]}.{name}"
            raise DataError(f"--set {text}: write {form}; --seed, --train-size and --test-size have options")
        try:
            options[task or tasks[0]][key] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise DataError(f"--set {text}: the value is not YAML; quote it") from error
    return options


def problems_of(
    task: str, config: Mapping[str, Any], sizes: Mapping[str, int], seed: int, report: Report,
    exclude: Collection[bytes] = (),
) -> list[Problem]:  # fmt: skip
    """Return the first distinct problems of a task: the test split, then the training split.

    Raises DataError if the library refuses the options or raises, if it has fewer problems, or if its rule scores a
    wrong answer like the right one.
    """
    kept: list[Problem] = []
    count = sum(sizes.values())
    for problem in distinct_problems(_drawn(task, config, count, seed), task, report, exclude):
        kept.append(replace(problem, split="test" if len(kept) < sizes["test"] else "train"))
        if len(kept) == count:
            break
    if len(kept) < count:
        what = f"has {len(kept)} distinct problems in {ROUNDS} x {count} draws"
        raise DataError(f"{GYM}:{task}: {what}; lower --train-size or --test-size, or widen its options with --set")
    return kept


def _drawn(task: str, config: Mapping[str, Any], count: int, seed: int) -> Iterator[tuple[str, Problem]]:
    """Yield the library's problems in its order: most tasks draw problem i of seed s from s + i."""
    random.seed(seed)  # list_functions draws from Python's own generator
    for start in range(seed, seed + ROUNDS * count, count or 1):
        try:
            source = reasoning_gym.create_dataset(task, seed=start, size=count, **config)
            for index in range(count):
                place, entry = f"{GYM}:{task}, seed {seed}, problem {start - seed + index}", source[index]
                if score_of(source, WRONG, entry)[0] >= 1.0:
                    raise DataError(f"{place}: the library scores the answer {WRONG!r} 1.0; leave {task} out")
                columns = {COLUMN: entry_text(task, config, entry)}
                yield place, Problem(f"{GYM}/{task}", entry["question"], entry["answer"], "train", columns)
        except DataError:
            raise
        except Exception as error:  # whatever the library raises, such as for its options
            what = " ".join(f"--set {key}={value}" for key, value in config.items()) or f"seed {seed}"
            said = f"{type(error).__name__}: {error}"
            raise DataError(f"{GYM}:{task} refuses {what} ({said}); change --set or --seed") from error
