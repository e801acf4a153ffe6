"""Training and test files of reasoning-gym's tasks: `rpg data build reasoning_gym:TASK`. Needs the extra `gym`."""

import dataclasses
import random
from collections.abc import Collection, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any

import yaml

from rpg.data.build import Report, distinct_problems
from rpg.data.parquet import Problem
from rpg.data.readers import DataError
from rpg.data.template import QUESTION
from rpg.registry.datasets import GYM
from rpg.rewards.gym import COLUMN, PROMPT, TASKS, entry_text, reasoning_gym, score_of
from rpg.rewards.user_reward import WRONG

TEMPLATE = f"{PROMPT}\n{QUESTION}"
ROUNDS = 10  # draws for each wanted problem, before the task has too few
MIXTURE = "composite"
OF_THE_BUILD = {"seed": "--seed", "size": "--train-size and --test-size"}  # options that are not for --set


def tasks_of(name: str) -> list[str]:
    """Return the tasks of reasoning_gym:TASK[,TASK...]. Raises DataError for none, or one that the library lacks."""
    tasks = [task for task in dict.fromkeys(name.partition(":")[2].split(",")) if task]
    known = sorted(TASKS.keys() - {MIXTURE})
    if not tasks:
        raise DataError(f"name a task, as {GYM}:chain_sum, or several, separated by commas: {', '.join(known)}")
    for task in tasks:
        if task == MIXTURE:
            raise DataError(f"{task}: is the library's mixture of tasks; name them: {GYM}:chain_sum,leg_counting")
        if task not in known:
            raise DataError(f"{task}: reasoning-gym has no such task; did you mean {_near(task, known)}?")
    return tasks


def options_of(tasks: Sequence[str], settings: Sequence[str]) -> dict[str, dict[str, Any]]:
    """Return task -> the options of texts KEY=VALUE, or TASK.KEY=VALUE for one of several tasks.

    Raises DataError for another text and for an option that a task lacks.
    """
    options: dict[str, dict[str, Any]] = {task: {} for task in tasks}
    for text in settings:
        name, equals, value = text.partition("=")
        task, dot, key = name.rpartition(".")
        if not equals or (dot and task not in options) or (not dot and len(tasks) > 1):
            form = "KEY=VALUE" if len(tasks) == 1 else f"TASK.KEY=VALUE, as {tasks[0]}.{name}"
            raise DataError(f"--set {text}: write {form}")
        task = task or tasks[0]
        known = [field.name for field in dataclasses.fields(TASKS[task][1])]
        if key in OF_THE_BUILD:
            raise DataError(f"--set {text}: {key} is set by {OF_THE_BUILD[key]}")
        if key not in known:
            has = [name for name in known if name not in OF_THE_BUILD]
            raise DataError(f"--set {text}: {task} has {', '.join(has)}; did you mean {_near(key, has)}?")
        try:
            options[task][key] = yaml.safe_load(value)
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
    for problem in distinct_problems(_drawn(task, config, sum(sizes.values()), seed), task, report, exclude):
        kept.append(dataclasses.replace(problem, split="test" if len(kept) < sizes["test"] else "train"))
        if len(kept) == sum(sizes.values()):
            return kept
    if not kept and not sum(sizes.values()):
        return kept
    raise DataError(
        f"{GYM}:{task}: has {len(kept)} distinct problems in {ROUNDS} x {sum(sizes.values())} draws; lower "
        "--train-size or --test-size, or widen its options with --set"
    )


def _drawn(task: str, config: Mapping[str, Any], count: int, seed: int) -> Iterator[tuple[str, Problem]]:
    """Yield the library's problems in its order: most tasks draw problem i of seed s from s + i."""
    random.seed(seed)  # list_functions draws from Python's own generator
    for start in range(seed, seed + ROUNDS * count, count or 1):
        source = _create(task, config, start, count)
        for index in range(count):
            place = f"{GYM}:{task}, seed {seed}, problem {start - seed + index}"
            try:
                entry = source[index]
            except Exception as error:
                raise DataError(f"{place}: the library raised {_said(error)}; change --set or --seed") from error
            yield place, _problem(task, config, source, entry, place)


def _create(task: str, config: Mapping[str, Any], seed: int, size: int) -> Any:
    try:
        return reasoning_gym.create_dataset(task, seed=seed, size=size, **config)
    except Exception as error:
        options = " ".join(f"{key}={value}" for key, value in config.items())
        what = f"--set {options}: {GYM}:{task} refuses it" if config else f"{GYM}:{task}: cannot be made"
        raise DataError(f"{what}: {_said(error)}; change --set") from error


def _problem(task: str, config: Mapping[str, Any], source: Any, entry: dict[str, Any], place: str) -> Problem:
    if score_of(source, WRONG, entry)[0] >= 1.0:
        raise DataError(f"{place}: the library scores the answer {WRONG!r} 1.0; leave {task} out")
    try:
        text = entry_text(task, config, entry)
    except TypeError as error:
        raise DataError(f"{place}: cannot be written as JSON ({error}); change --set") from error
    return Problem(f"{GYM}/{task}", entry["question"], entry["answer"], "train", {COLUMN: text})


def _near(name: str, known: Sequence[str]) -> str:
    return get_close_matches(name, known, n=1, cutoff=0.0)[0]


def _said(error: Exception) -> str:
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
