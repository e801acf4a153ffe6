"""Problem sets made by reasoning-gym's generators, in the recipe's template and schema."""

import contextlib
import dataclasses
import io
import json
import random
import signal
import tempfile
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from difflib import get_close_matches
from types import NoneType
from typing import Any, get_args, get_origin, get_type_hints

import yaml
from pydantic import ConfigDict, TypeAdapter, ValidationError
from tqdm import tqdm

from rpg.data.build import digest
from rpg.data.parquet import Problem
from rpg.data.readers import DataError
from rpg.rewards import JUDGES, compute_score, gym
from rpg.rewards.data_sources import GYM_PREFIX, require_gym_task

DRAWS = 4  # for each problem wanted, and MORE_DRAWS: then the generator is taken to have no more
MORE_DRAWS = 100
PROBLEM_SECONDS = 10.0  # of the processor; the slowest task's defaults take under one
RESERVED = ("seed", "size")  # of every configuration; --seed, --train-size and --test-size give them
PROGRAMS = ("codeio",)  # whose answers are what a program gives, some of them by chance or by the clock
PLAIN = (bool, int, float, str, NoneType)  # what a setting is made of: YAML has values of it, and JSON keeps them
AS_YAML = "values are YAML: true is a bool, 1.0e-3 a float, [a, b] a list, '\"7\"' a str"
NONSENSE = "no such answer"


@dataclasses.dataclass
class Drawn:
    """What one run of a generator gave: disjoint splits, and why other problems are not in them."""

    test: list[Problem] = dataclasses.field(default_factory=list)
    train: list[Problem] = dataclasses.field(default_factory=list)
    left_out: Counter[str] = dataclasses.field(default_factory=Counter)
    unanswered: int = 0


def settings_of(task: str, overrides: list[str]) -> dict[str, Any]:
    """The settings that "key=value" texts ask for, values read as YAML; lists become tuples where the task has those.

    Raises DataError for a key that the task's configuration does not have, naming the nearest, for one given twice,
    for one of a type that YAML has no values of, and for a value of another type than the key's.
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
            has = ", ".join(fields) or "none"
            raise DataError(f"{text!r} is no setting of {task}; {hint}give key=value; its keys: {has}")
        if key in settings:
            raise DataError(f"{text!r}: {key} is given twice; give it once")
        default = fields[key].default
        try:
            settings[key] = _as(_kind(annotations[key], default), yaml.safe_load(value))
            yaml.safe_dump(settings[key])  # no enumerations
            json.dumps(settings[key])  # no dates
        except ValidationError as error:
            wrong = " or ".join(dict.fromkeys(found["msg"] for found in error.errors()))
            raise DataError(f"{text!r}: {wrong}; {AS_YAML}") from None
        except TypeError as error:
            raise DataError(f"{text!r}: {key} cannot be set here ({error}); leave it out") from None
        except (yaml.YAMLError, ValueError) as error:  # ValueError: a date that does not exist
            raise DataError(f"{text!r}: the value cannot be read as YAML ({error})") from None
        if isinstance(default, tuple) and isinstance(settings[key], list):
            settings[key] = tuple(settings[key])
    return settings


def _kind(annotation: Any, default: Any) -> Any:
    """What a field takes: as it is annotated, in full where that is "tuple" or "tuple[str]", or as its default is.

    Not every default is as annotated: rearc's diff_ub is an int of 0.2.
    """
    if annotation is tuple and isinstance(default, Sequence) and default:
        annotation = tuple[type(default[0]), ...]
    if get_origin(annotation) is tuple and len(get_args(annotation)) == 1:
        annotation = tuple[get_args(annotation)[0], ...]
    if type(default) in PLAIN:
        try:
            _as(annotation, default)
        except ValidationError:
            return annotation | type(default)
    return annotation


def _as(kind: Any, value: Any) -> Any:
    """A value read from YAML as an annotated type: without a change but for lists, which become tuples.

    Raises pydantic's ValidationError for one of another type.
    """
    adapter = TypeAdapter(kind, config=ConfigDict(allow_inf_nan=False))
    return adapter.validate_json(json.dumps(value, default=str), strict=True)


def draw(
    task: str, settings: dict[str, Any], seed: int, test: int, train: int, exclude: Collection[bytes] = ()
) -> Drawn:
    """Take `test` and then `train` distinct problems from the generator's stream of this seed.

    Distinct by their text, white space aside, so that no problem is in both splits, nor one of `exclude` (digests)
    in either; the test problems do not depend on how many are for training, but for acre, which shuffles what it is
    asked for. A problem is left out where a response that states its own answer does not score 1 under both judges, or
    one that states nonsense does, and where it cannot be made or kept: nothing could be learnt from it. Those without
    an answer of their own are kept, and counted.

    Raises DataError where the settings are refused, and where the stream has too few such problems.
    """
    wanted, drawn, seen = test + train, Drawn(), set()
    size = DRAWS * wanted + MORE_DRAWS
    for problem in tqdm(_stream(task, settings, seed, size), task, disable=None):  # None: only on a terminal
        reason = problem if isinstance(problem, str) else _unusable(problem, seen, exclude)
        if isinstance(problem, str) or reason:
            drawn.left_out[reason] += 1
            continue
        seen.add(digest(problem.text))
        drawn.unanswered += gym.own_answer(problem.ground_truth) is None
        split = "test" if len(drawn.test) < test else "train"
        (drawn.test if split == "test" else drawn.train).append(dataclasses.replace(problem, split=split))
        if len(seen) == wanted:
            return drawn
    reasons = "".join(f", {count} left out: {reason}" for reason, count in drawn.left_out.most_common(3))
    config = dataclasses.asdict(_config_class(task)(**settings))
    raise DataError(
        f"{len(seen)} distinct problems among the first {size} of seed {seed}{reasons}; {test} + {train} were asked "
        f"for. Ask for fewer (--train-size, --test-size), or widen the task: "
        f"{', '.join(f'{key}={value}' for key, value in config.items() if key not in RESERVED)}"
    )


def _config_class(task: str) -> type:
    require_gym_task(task)
    return gym.load()[task][1]


def _unusable(problem: Problem, seen: Collection[bytes], exclude: Collection[bytes]) -> str:
    """Why a problem is left out, "" where it is not."""
    key, own = digest(problem.text), gym.own_answer(problem.ground_truth)
    if key in seen:
        return "repeats an earlier problem"
    if key in exclude:
        return "stands in a file of --exclude"
    if own is not None and not all(_is_right(own, problem, judge) for judge in JUDGES):
        return "its own answer does not score 1"
    # both judges read it alike
    return f"{NONSENSE!r} scores 1" if _is_right(NONSENSE, problem, JUDGES[0]) else ""


@contextlib.contextmanager
def processor_limit(seconds: float = PROBLEM_SECONDS) -> Iterator[None]:
    """Raise TimeoutError in this context after so many seconds of processor time; for the main thread."""

    def stop(*_: Any) -> None:
        raise TimeoutError(f"one problem takes more than {seconds:g} s")

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _stream(task: str, settings: dict[str, Any], seed: int, size: int) -> Iterator[Problem | str]:
    """The generator's problems in its order; of one that cannot be made or kept, why."""
    dataset_class, config_class = gym.load()[task]
    random.seed(seed)  # some generators draw from the module's own state
    try:
        dataset = dataset_class(config=config_class(**settings, seed=seed, size=size))
    except (AssertionError, ValueError, TypeError, AttributeError, KeyError) as error:
        given = ", ".join(f"{key}={value}" for key, value in settings.items()) or "its defaults"
        raise DataError(f"{task} does not take {given}: {error or type(error).__name__}") from error
    packed = {key: settings[key] for key in sorted(settings)}
    with tempfile.TemporaryDirectory() as scratch:
        for index in range(size):
            try:
                # codeio's problems are programs, which are run: what they write is not the user's
                with processor_limit(), contextlib.chdir(scratch), contextlib.redirect_stdout(io.StringIO()):
                    entry = dataset[index]
                    steady = task not in PROGRAMS or dataset[index]["answer"] == entry["answer"]
            except TimeoutError as error:
                given = ", ".join(f"{key}={value}" for key, value in settings.items()) or "its defaults"
                raise DataError(f"{task}, {given}: {error}; lower the settings that make problems long") from error
            except (ValueError, RuntimeError, LookupError, AssertionError, TypeError, AttributeError) as error:
                yield f"its generator fails ({error or type(error).__name__})"
                continue
            truth = {"answer": entry["answer"], "config": packed, "metadata": entry["metadata"]}
            try:
                text = gym.pack(truth)
            except (TypeError, ValueError) as error:
                yield f"its metadata cannot be written as JSON ({error})"
                continue
            if not steady:
                yield "its program does not give the same answer twice"
            elif gym.unpack(text) != truth:
                yield "JSON does not keep its metadata"
            else:
                yield Problem(GYM_PREFIX + task, entry["question"].strip(), text, "train")


def _is_right(answer: str, problem: Problem, judge: str) -> bool:
    return compute_score(problem.data_source, f"Answer: {answer}", problem.ground_truth, judge=judge)["acc"] == 1.0
