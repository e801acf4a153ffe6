"""Imports a user's reward function and calls it, in the main thread of a sandbox's child (sandbox.py).

There alarms and pools of processes work, and a call that hangs or holds Python's lock can be killed. The names of the
parameters say the form of the call (FORMS); arguments are passed by name, those that the function has. TRL's and verl's
batch form get lists of one and return one. Each may be `async def`.
"""

import asyncio
import importlib
import inspect
import math
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from rpg.diagnostics import UserError
from rpg.rewards import PACKAGE, Score, utf8
from rpg.rewards.sandbox import MEMORY, described

USUAL = ("compute_score", "reward")  # preferred names of the function
# the forms, by the parameters that each must have
TRL, BATCH = ("completions",), ("solution_strs", "ground_truths")
VERL, SHORT = ("solution_str", "ground_truth"), ("response", "answer")
FORMS = (
    "write verl's compute_score(data_source, solution_str, ground_truth, extra_info), its batch form (data_sources, "
    "solution_strs, ground_truths, extra_infos), TRL's reward(completions, **columns) or reward(response, answer, row)"
)
SCRIPT = "__mp_main__"  # the name by which multiprocessing finds what a script defines, here and in a spawned process
# names that verl gives to its own columns of a validation
VERL_COLUMNS = ("input", "output", "gts", "step", "uid", "reward", "acc_success_only")

_loaded: list[tuple[Callable[..., Any], str, tuple[str, ...]]] = []  # this process's function, its place and form
_have_acc: set[bool] = set()  # whether the results so far have acc; 0 and 1 without it do not count
_loop = asyncio.new_event_loop()  # of all calls, so that a function may keep its connections


def warm_up(file: str, name: str = "") -> None:
    """Import the user's file and find its function."""
    sys.argv = [file]  # for a file that reads its command line
    try:
        module = import_file(file)
    except BaseException as error:  # noqa: BLE001  # whatever the file raises, also SystemExit
        message = f"{file}: cannot be imported: {described(error)}"
        hint = f"; give {PACKAGE}PACKAGE.{Path(file).stem}" if "relative import" in message else ""
        raise UserError(message + hint) from None
    _loaded.append(find(module, file, name))


def import_file(file: str) -> ModuleType:
    """Import a file of any name like a script, or pkg://MODULE, so that processes that it starts find it.

    Its folder is at the end of sys.path, so that its neighbours can be imported.
    """
    path = Path(file)
    sys.path += map(str, (path.parent, path.resolve().parent, Path.cwd()))
    if file.startswith(PACKAGE):
        return importlib.import_module(file.removeprefix(PACKAGE))
    module = sys.modules[SCRIPT] = sys.modules["__main__"] = ModuleType(SCRIPT)
    module.__file__ = file
    exec(compile(path.read_bytes(), file, "exec"), module.__dict__)
    return module


def find(module: ModuleType, file: str, name: str = "") -> tuple[Callable[..., Any], str, tuple[str, ...]]:
    """Return a function, its place and form: `name`, compute_score, reward, or the only public one of a known form.

    An imported function counts only if it is named compute_score or reward, and the file defines no other.

    Raises UserError if no function, or several, qualify; a helper of a known form does not replace compute_score.
    """
    functions = {key: value for key, value in vars(module).items() if callable(value)}
    known = {key: form for key, value in functions.items() if (form := form_of(value))}
    own = [key for key, value in functions.items() if key[0] != "_" and not is_imported(value, module)]
    usual = [key for key in USUAL if key in own and key in known] or [key for key in USUAL if key in own]
    candidates = [key for key in own if key in known] + [key for key in USUAL if key in known and key not in own][:1]
    chosen = [name] if name else usual[:1] or candidates
    if len(chosen) != 1 or chosen[0] not in known:
        what = f"{chosen[0] if len(chosen) == 1 else 'the reward function'} is missing or has another form"
        remedy = f"rename one to {USUAL[0]}" if len(candidates) > 1 else FORMS
        raise UserError(f"{file}: {what} (of a known form: {', '.join(candidates) or 'none'}); {remedy}")
    return functions[chosen[0]], f"{file}, {chosen[0]}", known[chosen[0]]


def is_imported(value: Any, module: ModuleType) -> bool:
    """Return whether another module defines a function, not only the decorator or the partial that made it here."""
    home = sys.modules.get(getattr(value, "__module__", ""), module)
    return home is not module and getattr(home, getattr(value, "__qualname__", ""), None) is value


def form_of(function: Callable[..., Any]) -> tuple[str, ...] | None:
    """Return the form whose parameters a function has; verl's, if it takes any keywords; else None, as for a class."""
    if isinstance(function, type):
        return None
    try:
        parameters = inspect.signature(function).parameters
    except (ValueError, TypeError):
        return None
    forms = (form for form in (TRL, BATCH, VERL, SHORT) if parameters.keys() >= {*form})
    return next(forms, VERL if is_open(parameters) else None)


def is_open(parameters: Mapping[str, inspect.Parameter]) -> bool:
    """Return whether a function takes any keyword."""
    return any(parameter.kind == parameter.VAR_KEYWORD for parameter in parameters.values())


def answer(source: str, response: str, truth: Any, extra: Mapping[str, Any], options: dict[str, Any]) -> Score:
    """Return the score of one response; options: further keywords of the function."""
    ((function, where, form),) = _loaded
    parameters = inspect.signature(function).parameters
    offered = {"data_source": source, "solution_str": response, "ground_truth": truth, "extra_info": extra}
    if form == TRL:
        columns = {"answer": truth, "solution": truth, "ground_truth": truth, "data_source": source, **extra}
        offered = {**columns, "prompts": extra.get("raw_problem"), "completions": response}
    elif form == BATCH:
        offered = {f"{name}s": value for name, value in offered.items()}
    elif form == SHORT:
        row = {"question": extra.get("raw_problem"), "answer": truth, "data_source": source, **extra}
        offered = {"response": response, "answer": truth, "row": row}
    in_lists = form in (TRL, BATCH)
    names = offered if is_open(parameters) else parameters
    arguments = {name: [value] if in_lists else value for name, value in offered.items() if name in names}
    try:
        value = (called_by_trl if form == TRL else called)(function, arguments, options)
    except MemoryError as error:
        limit = f"calls may take {MEMORY >> 30} GiB, unless the file sets resource.RLIMIT_DATA"
        raise UserError(f"{described(error)}; {limit}") from None
    if in_lists and (isinstance(value, str | Mapping) or not hasattr(value, "__len__") or len(value) != 1):
        raise UserError(f"{where}: returns {value!r:.80} for a list of one response; return a list of one")
    return as_score(value[0] if in_lists else value, where)


def called(function: Callable[..., Any], arguments: dict[str, Any], options: dict[str, Any]) -> Any:
    """Return what a function returns, or its coroutine."""
    value = function(**{**arguments, **options})
    return _loop.run_until_complete(value) if inspect.isawaitable(value) else value


def called_by_trl(function: Callable[..., Any], arguments: dict[str, Any], options: dict[str, Any]) -> Any:
    """Return what TRL's function returns for a text or, if it fails on one, for messages, as TRL gives for chats."""
    try:
        return called(function, arguments, options)
    except (TypeError, AttributeError) as error:
        roles = {"prompts": "user", "completions": "assistant"}.items()
        turns = {name: [[{"role": role, "content": arguments[name][0]}]] for name, role in roles if name in arguments}
        try:
            return called(function, arguments | turns, options)
        except Exception:  # noqa: BLE001  # then it takes texts, and says why it fails on this one
            raise error from None


def as_score(value: Any, where: str) -> Score:
    """Convert a result for verl: a number, or a mapping with `score`, `acc` (default: the score), `pred` and numbers.

    Other texts and None are left out, as in verl's metrics.

    Raises UserError for a value that is not a finite number, for a key that verl uses itself, and for results with
    `acc` beside others whose score is no accuracy, being neither 0 nor 1.
    """
    values = dict(value) if isinstance(value, Mapping) else {"score": value}
    pred = values.pop("pred", None)
    others = {
        key: value for key, value in values.items() if key in ("score", "acc") or not isinstance(value, str | None)
    }
    scores: dict[str, Any] = {"score": None, "acc": values.get("score"), **others}
    for key, number in scores.items():
        if key in VERL_COLUMNS:
            raise UserError(f"{where}: returns the key {key!r}, which verl cannot log; choose another name")
        try:
            scores[key] = math.nan if isinstance(number, str | bytes) else float(number)
        except (TypeError, ValueError, OverflowError):
            scores[key] = math.nan
        if not math.isfinite(scores[key]):
            raise UserError(f"{where}: {key}={number!r:.80} is not a finite number; return one, or text as `pred`")
    if "acc" in values or scores["acc"] not in (0, 1):
        _have_acc.add("acc" in values)
    if len(_have_acc) > 1:
        raise UserError(f"{where}: returns `acc` for some responses and not for others; return it for each")
    return {**scores, "pred": "" if pred is None else utf8(str(pred))}  # type: ignore[typeddict-item]
