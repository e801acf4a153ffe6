"""Problem sets made by reasoning-gym's generators, in the recipe's template and schema."""

import contextlib
import dataclasses
import io
import json
import random
import signal
import tempfile
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import yaml
from pydantic import ConfigDict, TypeAdapter, ValidationError

from rpg.data.build import Report, distinct_problems
from rpg.data.parquet import Problem
from rpg.data.readers import DataError
from rpg.rewards import JUDGES, compute_score, gym
from rpg.rewards.data_sources import GYM_PREFIX, require_gym_task

DRAWS = 4  # for each problem, and MORE_DRAWS: then the generator is taken to have no more
MORE_DRAWS = 100
PROBLEM_SECONDS = 10.0  # of processor time; the slowest task's defaults take under one
RESERVED = ("seed", "size")  # of every configuration; --seed, --train-size and --test-size give them
PROGRAMS = ("codeio",)  # whose answers are what a program gives, some of them by chance or by the clock
PLAIN = (bool, int, float, str, NoneType)  # types of settings that YAML and JSON keep
NONSENSE = "no such answer"


def settings_of(task: str, overrides: list[str]) -> dict[str, Any]:
    """The settings in "key=value" texts, values read as YAML; lists become tuples if the task has those.

    Raises DataError for a key that the task's configuration does not have, naming the nearest, for one given twice,
    and for a value of another type than the key's.
    """
    config = _config_class(task)
    annotations = get_type_hints(config)
    fields = {field.name: field for field in dataclasses.fields(config) if field.name not in RESERVED}
    settings: dict[str, Any] = {}
    for text in overrides:
        key, equals, value = text.partition("=")
        if not equals or key not in fields:
            near = get_close_matches(key, fields, n=1)
            hint = f"did you mean {near[0]}? " if near else ""
            keys = ", ".join(fields) or "none"
            raise DataError(f"{text!r} is no setting of {task}; {hint}give key=value; its keys: {keys}")
        if key in settings:
            raise DataError(f"{text!r}: {key} is given twice; give it once")
        default = fields[key].default
        kind = _accepted(annotations[key], default)
        try:
            adapter = TypeAdapter(kind, config=ConfigDict(allow_inf_nan=False))
            settings[key] = adapter.validate_json(json.dumps(yaml.safe_load(value), default=str), strict=True)
            json.dumps(settings[key])  # rows keep the settings as JSON: no dates, no enumerations
        except ValidationError as error:
            wrong = " or ".join(dict.fromkeys(detail["msg"] for detail in error.errors()))
            raise DataError(f"{text!r}: {wrong}; write YAML: true, 3, 1.0e-3, [a, b], '\"7\"' for text") from None
        except (yaml.YAMLError, ValueError, TypeError) as error:
            raise DataError(f"{text!r}: the value cannot be read as YAML or kept as JSON ({error})") from None
        if isinstance(default, tuple) and isinstance(settings[key], list):
            settings[key] = tuple(settings[key])
    return settings


def _accepted(annotation: Any, default: Any) -> Any:
    """The types a field accepts. Some annotations are not what they mean: tuple[str], or an int of default 0.2."""
    if annotation is tuple and isinstance(default, tuple):
        return tuple[type(default[0]), ...]
    if get_origin(annotation) is tuple and len(get_args(annotation)) == 1:
        return tuple[get_args(annotation)[0], ...]
    return annotation | type(default) if type(default) in PLAIN else annotation


def draw(
    task: str,
    settings: dict[str, Any],
    seed: int,
    *,
    test: int,
    train: int,
    exclude: Collection[bytes] = (),
    report: Report | None = None,
) -> list[Problem]:
    """Take `test` and then `train` distinct problems from the generator's stream of this seed.

    Distinct by their text, white space aside, so that no problem is in both splits, nor one of `exclude` (digests)
    in either; the test problems do not depend on `train`, except for acre, which shuffles all of its problems. A
    problem is left out if a response that states its own answer does not score 1 under both judges, if one that states
    nonsense does, and if it cannot be made or kept as JSON. Problems without an answer of their own are kept.

    Raises DataError if the settings are refused, and if the stream has too few such problems.
    """
    report = report or Report()
    count = test + train
    size = DRAWS * count + MORE_DRAWS
    problems: list[Problem] = []
    for problem in distinct_problems(_stream(task, settings, seed, size), task, report, exclude):
        problems.append(dataclasses.replace(problem, split="test" if len(problems) < test else "train"))
        if len(problems) == count:
            return problems
    reasons = "".join(f", {count} left out: {reason}" for reason, count in report.left_out.most_common(3))
    config = dataclasses.asdict(_config_class(task)(**settings))
    raise DataError(
        f"{len(problems)} distinct problems among the first {size} of seed {seed}{reasons}; {test} + {train} were "
        "asked for. Ask for fewer (--train-size, --test-size), or widen the task: "
        f"{', '.join(f'{key}={value}' for key, value in config.items() if key not in RESERVED)}"
    )


def _config_class(task: str) -> type:
    require_gym_task(task)
    return gym.load()[task][1]


@contextlib.contextmanager
def _processor_limit() -> Iterator[None]:
    """Raise TimeoutError in this context after PROBLEM_SECONDS of processor time; for the main thread."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"one problem takes more than {PROBLEM_SECONDS:g} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, PROBLEM_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _stream(task: str, settings: dict[str, Any], seed: int, size: int) -> Iterator[tuple[str, Problem | str]]:
    """The generator's problems in its order, or why one of them cannot be used."""
    dataset_class, config_class = gym.load()[task]
    random.seed(seed)  # some generators draw from the module's own state
    shown = ", ".join(f"{key}={value}" for key, value in settings.items()) or "its defaults"
    try:
        dataset = dataset_class(config=config_class(**settings, seed=seed, size=size))
    except (AssertionError, ValueError, TypeError, AttributeError, KeyError) as error:
        raise DataError(f"{task} does not take {shown}: {error or type(error).__name__}") from error
    packed = {key: settings[key] for key in sorted(settings)}
    with tempfile.TemporaryDirectory() as scratch:
        for index in range(size):
            try:
                # codeio's problems are programs, which are run: what they write is not the user's
                with _processor_limit(), contextlib.chdir(scratch), contextlib.redirect_stdout(io.StringIO()):
                    entry = dataset[index]
                    steady = task not in PROGRAMS or dataset[index]["answer"] == entry["answer"]
            except TimeoutError as error:
                raise DataError(f"{task}, {shown}: {error}; lower the settings that make problems long") from error
            except (ValueError, RuntimeError, LookupError, AssertionError, TypeError, AttributeError) as error:
                result = f"its generator fails ({error or type(error).__name__})"
            else:
                result = _usable(task, entry, packed) if steady else "its program does not give the same answer twice"
            yield f"problem {index}", result


def _usable(task: str, entry: dict[str, Any], settings: dict[str, Any]) -> Problem | str:
    """The problem of a generator's entry, or why nothing can be learnt from it."""
    truth = {"answer": entry["answer"], "config": settings, "metadata": entry["metadata"]}
    try:
        text = gym.pack(truth)
    except (TypeError, ValueError) as error:
        return f"its metadata cannot be written as JSON ({error})"
    if gym.unpack(text) != truth:
        return "JSON does not keep its metadata"
    problem, own = Problem(GYM_PREFIX + task, entry["question"].strip(), text, "train"), gym.own_answer(text)
    if own is not None and not all(_is_right(own, problem, judge) for judge in JUDGES):
        return "its own answer does not score 1"
    # both judges read it alike
    return f"{NONSENSE!r} scores 1" if _is_right(NONSENSE, problem, JUDGES[0]) else problem


def _is_right(answer: str, problem: Problem, judge: str) -> bool:
    return compute_score(problem.data_source, f"Answer: {answer}", problem.ground_truth, judge=judge)["acc"] == 1.0
