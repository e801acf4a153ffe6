"""Problem sets made by reasoning-gym's generators, in the recipe's template and schema."""

import dataclasses
import random
import time
from collections import Counter
from collections.abc import Callable, Iterator
from difflib import get_close_matches
from typing import Any

import yaml

from rpg.data.build import digest
from rpg.data.readers import DataError
from rpg.data.schema import Problem
from rpg.rewards import compute_score, gym
from rpg.rewards.sources import GYM_PREFIX, require_gym_task

PROGRESS_SECONDS = 5.0
DRAWS = 4  # for each problem wanted, and MORE_DRAWS: then the generator is taken to have no more
MORE_DRAWS = 100
RESERVED = ("seed", "size")  # of every configuration; --seed, --train-size and --test-size give them
REPEATED = "repeats an earlier problem"
UNSCORED = "its own answer does not score 1"
NONSENSE = "no such answer"
ANYTHING = f"{NONSENSE!r} scores 1"


@dataclasses.dataclass
class Drawn:
    """What one run of a generator gave: disjoint splits, and why other problems are not in them."""

    test: list[Problem] = dataclasses.field(default_factory=list)
    train: list[Problem] = dataclasses.field(default_factory=list)
    left_out: Counter[str] = dataclasses.field(default_factory=Counter)
    unanswered: int = 0


def settings_of(task: str, overrides: list[str]) -> dict[str, Any]:
    """The settings that "key=value" texts ask for, values read as YAML; lists become tuples where the task has those.

    Raises DataError for a key that the task's configuration does not have, naming the nearest.
    """
    fields = {field.name: field for field in dataclasses.fields(_config_class(task)) if field.name not in RESERVED}
    settings: dict[str, Any] = {}
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or key not in fields:
            near = get_close_matches(key, fields, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            has = ", ".join(fields) or "none"
            raise DataError(f"{text!r} is no setting of {task}; {hint}give key=value; its keys: {has}")
        try:
            settings[key] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise DataError(f"{text!r}: the value cannot be read as YAML ({error})") from None
        default = fields[key].default
        if isinstance(default, tuple) and isinstance(settings[key], list):
            settings[key] = tuple(settings[key])
    return settings


def _config_class(task: str) -> type:
    require_gym_task(task)
    return gym.load()[task][1]


def draw(
    task: str, settings: dict[str, Any], seed: int, test: int, train: int, say: Callable[[str], None] = print
) -> Drawn:
    """Take `test` and then `train` distinct problems from the generator's stream of this seed.

    Distinct by their text, white space aside, so that no problem stands in both splits; the test problems do not
    depend on how many are for training. A problem is left out where a response that states its own answer does not
    score 1, or one that states nonsense does: nothing could be learnt from it. Those without an answer of their own
    are kept, and counted.

    Raises DataError where the settings are refused, and where the stream has not that many such problems.
    """
    wanted, drawn, seen = test + train, Drawn(), set()
    size = DRAWS * wanted + MORE_DRAWS
    last = time.monotonic()
    for problem, has_answer in _stream(task, settings, seed, size):
        if time.monotonic() - last > PROGRESS_SECONDS:
            last = time.monotonic()
            say(f"{GYM_PREFIX}{task}: {len(seen)} of {wanted} problems")
        key = digest(problem.text)
        if key in seen:
            drawn.left_out[REPEATED] += 1
        elif has_answer and not _is_right(gym.own_answer(problem.ground_truth), problem):
            drawn.left_out[UNSCORED] += 1
        elif _is_right(NONSENSE, problem):
            drawn.left_out[ANYTHING] += 1
        else:
            seen.add(key)
            drawn.unanswered += not has_answer
            split = "test" if len(drawn.test) < test else "train"
            (drawn.test if split == "test" else drawn.train).append(dataclasses.replace(problem, split=split))
        if len(seen) == wanted:
            return drawn
    reasons = "".join(f", {count} left out: {reason}" for reason, count in drawn.left_out.items())
    raise DataError(
        f"{len(seen)} distinct problems among the first {size} of seed {seed}{reasons}; {test} + {train} were asked "
        f"for. Ask for fewer (--train-size, --test-size), or widen the task: "
        f"{', '.join(f'{key}={value}' for key, value in _defaults(task, settings).items())}"
    )


def _defaults(task: str, settings: dict[str, Any]) -> dict[str, Any]:
    """Every setting of the task with its value."""
    config = _config_class(task)(**settings)
    return {
        field.name: getattr(config, field.name) for field in dataclasses.fields(config) if field.name not in RESERVED
    }


def _stream(task: str, settings: dict[str, Any], seed: int, size: int) -> Iterator[tuple[Problem, bool]]:
    """The generator's problems in its order, and whether each has an answer of its own."""
    dataset_class, config_class = gym.load()[task]
    random.seed(seed)  # some generators draw from the module's own state
    try:
        dataset = dataset_class(config=config_class(**settings, seed=seed, size=size))
    except (AssertionError, ValueError, TypeError, AttributeError, KeyError) as error:
        given = ", ".join(f"{key}={value}" for key, value in settings.items()) or "its defaults"
        raise DataError(f"{task} does not take {given}: {error or type(error).__name__}") from error
    packed = {key: settings[key] for key in sorted(settings)}
    for index in range(size):
        try:
            entry = dataset[index]
        except (ValueError, RuntimeError, IndexError, AssertionError) as error:
            raise DataError(f"{task}: its generator fails at problem {index} of seed {seed}: {error}") from error
        truth = {"answer": entry["answer"], "config": packed, "metadata": entry["metadata"]}
        try:
            text = gym.pack(truth)
        except (TypeError, ValueError) as error:
            raise DataError(
                f"{task}, problem {index} of seed {seed}: its metadata cannot be written: {error}"
            ) from error
        if gym.unpack(text) != truth:
            raise DataError(f"{task}, problem {index} of seed {seed}: JSON does not keep its metadata")
        yield Problem(GYM_PREFIX + task, entry["question"].strip(), text, "train"), entry["answer"] is not None


def _is_right(answer: str | None, problem: Problem) -> bool:
    return compute_score(problem.data_source, f"Answer: {answer}", problem.ground_truth)["acc"] == 1.0
