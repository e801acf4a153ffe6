"""Calls a user's reward function in the main thread of a sandbox's child (sandbox.py).

There alarms work, the file is a module that process pools and pickle find by name, and a call that hangs or holds
Python's lock can be killed. A user's function may use more memory and write files, unlike math-verify for `release`.
"""

import asyncio
import functools
import importlib
import importlib.util
import inspect
import os
import signal
import sys
import traceback
from collections.abc import Awaitable, Callable, Mapping
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

from rpg.rewards import Score
from rpg.rewards.sandbox import cut, said
from rpg.rewards.user_function import PACKAGE, VERL_PARAMETERS, RewardError, as_score, find_reward

ROW_NAMES = ("row", "extra_info")
BY_PATH = f"{__name__}."  # a module of this prefix is the file whose path follows, in hexadecimal digits
__path__: list[str] = []  # so that Python imports this module, with its finder, before such a file


class _ByPath:
    """Finds the files of BY_PATH by their names, also in a process that a pool spawns."""

    @staticmethod
    def find_spec(name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        if not name.startswith(BY_PATH):
            return None
        return importlib.util.spec_from_file_location(name, os.fsdecode(bytes.fromhex(name.removeprefix(BY_PATH))))


sys.meta_path.append(_ByPath)
_loaded: list[tuple[str, Callable[..., Any]]] = []  # the only function of this process, and its name for messages


def warm_up(file: str, function: str) -> None:
    """Import the user's file."""
    for stream in (sys.stdout, sys.stderr):
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a child ends without flushing
    limit_math_verify()
    sys.argv = [file]  # for a file that reads its command line
    _loaded.append((f"{file}, {function}", load(file, function)))


def answer(
    data_source: str, response: str, truth: Any, extra_info: Mapping[str, Any] | None, options: dict[str, Any]
) -> tuple[Score | None, str]:
    """Return the score of one response and "", or None and the error, with the line that raised it."""
    ((where, reward),) = _loaded
    try:
        value = reward(
            data_source=data_source, solution_str=response, ground_truth=truth, extra_info=extra_info, **options
        )
        if inspect.isawaitable(value):
            value = _event_loop().run_until_complete(_result(value))
        return as_score(value, where), ""
    except RewardError as error:
        return None, cut(str(error))
    except BaseException as error:  # noqa: BLE001  # whatever a user's function raises, also SystemExit
        frames = traceback.extract_tb(error.__traceback__)
        own = [frame for frame in frames if where.startswith(f"{frame.filename}, ")]  # the user's file
        place = (own or frames)[-1]
        return None, f"{said(error)} ({place.filename}, line {place.lineno})"


async def _result(value: Awaitable[Any]) -> Any:
    return await value


@functools.cache
def _event_loop() -> asyncio.AbstractEventLoop:
    """Return the event loop of all calls of this child, so that a function may keep its connections."""
    return asyncio.new_event_loop()


def load(file: str, function: str) -> Callable[..., Any]:
    """Import the file or pkg://MODULE and return its function in verl's form."""
    reward = find_reward(file, function)
    called = getattr(importlib.import_module(_importable(reward.file)), function)
    parameters = inspect.signature(called).parameters.values()
    is_verls = reward.is_verls
    if is_verls is None:
        is_verls = set(VERL_PARAMETERS) <= {parameter.name for parameter in parameters} or all(
            parameter.kind in (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL) for parameter in parameters
        )
    return called if is_verls else functools.partial(_call_short, called, *_row_parameter(called))


def _importable(file: str) -> str:
    """Return the name under which a file can be imported, here and in processes that it starts.

    Its folder is put at the end of sys.path, before the working directory, so that its neighbours can be imported. A
    file whose name belongs to another module, or to none (reward.v2.py), gets a name that holds its path.
    """
    if file.startswith(PACKAGE):
        return file.removeprefix(PACKAGE)
    path = Path(file)
    if str(path.parent) not in sys.path:
        sys.path.insert(len(sys.path) - (sys.path[-1] == os.getcwd()), str(path.parent))
    try:
        spec = None if "." in path.stem else importlib.util.find_spec(path.stem)  # it would import v of v.2
    except (ImportError, ValueError):  # no name of a module, or a module without a file
        spec = None
    if spec is not None and spec.origin is not None and Path(spec.origin).resolve() == path:
        return path.stem
    return BY_PATH + os.fsencode(file).hex()


def _row_parameter(function: Callable[..., Any]) -> tuple[str | None, bool]:
    """Return the parameter that takes the row, or None, and whether it is passed by name.

    It has a usual name, or is the third and has no default but None.
    """
    parameters = list(inspect.signature(function).parameters.values())
    for one in parameters[2:]:
        if one.name in ROW_NAMES and one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY):
            return one.name, True
    positional = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    if len(positional) < 3:
        rest = [one.name for one in parameters if one.kind == one.VAR_POSITIONAL]
        return (rest[0] if rest else None), False
    return (positional[2].name if positional[2].default in (inspect.Parameter.empty, None) else None), False


def _call_short(
    function: Callable[..., Any],
    row_parameter: str | None,
    by_name: bool,
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    **options: Any,
) -> Any:
    arguments: list[Any] = [solution_str, ground_truth]
    if row_parameter is not None and row_parameter not in options:
        extra = dict(extra_info or {})
        question = extra.pop("raw_problem", None)
        row = {**extra, "data_source": data_source, "question": question, "answer": ground_truth}
        if by_name:
            options[row_parameter] = row
        else:
            arguments.append(row)
    return function(*arguments, **options)


def limit_math_verify() -> None:
    """Turn Math-Verify's alarms into limits on processor time.

    A busy machine then changes no verdict, and a run agrees with a trial.
    """
    from math_verify import grader, metric, parser, utils
    from math_verify.errors import TimeoutException

    def end(*_: Any) -> None:
        raise TimeoutException

    def timeout(timeout_seconds: float | None = 10) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        def limited(function: Callable[..., Any]) -> Callable[..., Any]:
            @functools.wraps(function)
            def call(*args: Any, **kwargs: Any) -> Any:
                signal.signal(signal.SIGVTALRM, end)
                signal.setitimer(signal.ITIMER_VIRTUAL, timeout_seconds or 0)
                try:
                    return function(*args, **kwargs)
                finally:
                    signal.setitimer(signal.ITIMER_VIRTUAL, 0)

            return call

        return limited

    for module in (utils, parser, grader, metric):
        module.timeout = timeout  # type: ignore[assignment]
