"""Custom reward functions: a Python file with one function; its source, and the values that it returns.

Two forms are accepted:

- verl's: `compute_score(data_source, solution_str, ground_truth, extra_info=None)`;
- a short one: `reward(response, answer)` or `reward(response, answer, row)`. `row` has data_source, question, and the
  columns of `rpg data build --keep`.

Both may be `async def`. Both return a number, or a mapping with `score` and optionally `acc`, `pred` (text) and further
numbers.
"""

import ast
import importlib.util
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rpg.diagnostics import UserError
from rpg.rewards import Score, utf8

PACKAGE = "pkg://"
USUAL_NAME = "reward"
USUAL = ("compute_score", USUAL_NAME)  # preferred names of the function
VERL_PARAMETERS = ("data_source", "solution_str", "ground_truth")
RESPONSES = ("response", "solution_str", "completion")  # names of the first parameter, and of no other
QUESTIONS = ("question", "problem", "prompt", "prompts")  # not of the first parameter
# names that verl gives to its own columns of a validation
VERL_COLUMNS = ("input", "output", "gts", "step", "uid", "reward", "acc_success_only")


class RewardError(UserError):
    """A reward file that cannot be used, or a value that is not a reward; the message names it and the remedy."""


@dataclass(frozen=True)
class Reward:
    """A reward function: its file or pkg://MODULE, its name, and whether it has verl's form, if its source says so."""

    file: str
    function: str
    is_verls: bool | None


def find_reward(file: str | Path, name: str | None = None) -> Reward:
    """Find the reward function of a file or of pkg://MODULE by reading the source, without running it.

    name: the function's; default: compute_score, reward, or the file's only public function.
    Raises RewardError if there is no such file or not exactly one such function.
    """
    path, place = _source(str(file))
    try:
        body = ast.parse(path.read_bytes()).body
    except (SyntaxError, ValueError, OSError) as error:
        raise RewardError(f"{file}: cannot be read as Python ({error}); correct it") from error
    bound = dict(_bound(body))
    public = [
        function
        for function, node in bound.items()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not function.startswith("_")
    ]
    functions = [wanted for wanted in ([name] if name else USUAL) if wanted in bound] or ([] if name else public)
    imported = [function for function in functions if isinstance(bound.get(function), ast.Import | ast.ImportFrom)]
    functions = [function for function in functions if function not in imported] or functions  # the file's own first
    if name and not functions and "*" in bound:  # `from x import *` may define it
        functions = [name]
    if len(functions) != 1 and not set(functions) & set(USUAL):
        has = ", ".join(public) or "none"
        remedy = "give the name of one of these" if name else "name it reward"
        raise RewardError(f"{file}: {name or 'the reward function'} not found among its functions ({has}); {remedy}")
    node = bound.get(functions[0])
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or node.decorator_list:
        return Reward(place, functions[0], None)
    arguments = node.args
    parameters = [argument.arg for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    lacking = {*VERL_PARAMETERS} - {*parameters}
    # further names of verl's may be in **kwargs
    is_verls = not lacking or (arguments.kwarg is not None and (not parameters or lacking == {"data_source"}))
    called = f"{file}: {functions[0]}({', '.join(parameters)})"
    if not is_verls and len(arguments.posonlyargs + arguments.args) < 2 and arguments.vararg is None:
        raise RewardError(f"{called} has no positional parameters response and answer; add them")
    if is_verls and arguments.kwarg is None and "extra_info" not in parameters:
        raise RewardError(f"{called} is called with extra_info, too; add extra_info=None")
    is_late = not {*RESPONSES}.isdisjoint(parameters[1:]) and parameters[0] not in RESPONSES
    if not is_verls and (is_late or not {*QUESTIONS}.isdisjoint(parameters[:1])):
        raise RewardError(f"{called} is called with the response first and the answer second; change their order")
    return Reward(place, functions[0], is_verls)


def _source(file: str) -> tuple[Path, str]:
    """Return the source of a file or pkg://MODULE, and its name for `load`."""
    if file.startswith(PACKAGE):
        module = file.removeprefix(PACKAGE).replace("/", ".")
        try:
            spec = importlib.util.find_spec(module)  # imports its parents but not the module
        except (ImportError, ValueError):
            spec = None
        if spec is None or spec.origin is None:
            raise RewardError(f"{file}: no such module; install the package, or name a Python file")
        return Path(spec.origin), PACKAGE + module
    path = Path(file.removeprefix("file://")).expanduser().resolve()
    if not path.is_file():
        raise RewardError(f"{file}: no such file; name a Python file with a reward function")
    if path.suffix != ".py":
        raise RewardError(f"{file}: is not a Python file; its name must end in .py")
    return path, str(path)


def _bound(body: list[ast.stmt]) -> Iterator[tuple[str, ast.stmt]]:
    """Yield the names that a module binds, each with its statement."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name, node
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from ((alias.asname or alias.name, node) for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from ((target.id, node) for target in targets if isinstance(target, ast.Name))
        elif isinstance(node, ast.If | ast.Try | ast.With):
            inner = [*node.body, *getattr(node, "orelse", []), *getattr(node, "finalbody", [])]
            inner += [statement for handler in getattr(node, "handlers", []) for statement in handler.body]
            yield from _bound(inner)


def as_score(value: Any, where: str) -> Score:
    """Convert a reward function's result for verl: all numbers and booleans to float; `acc` defaults to the score.

    Raises RewardError for a value that is not a finite number, and for a key that verl uses itself.
    """
    values = dict(value) if isinstance(value, Mapping) else {"score": value}
    if "score" not in values:
        has = ", ".join(map(repr, values)) or "nothing"
        raise RewardError(f"{where}: returns {has} and no score; return a number, or a mapping with score")
    pred = values.pop("pred", None)
    for key in values:
        if not isinstance(key, str):
            raise RewardError(f"{where}: returns the key {key!r}, which is not text; choose a name")
        if key in VERL_COLUMNS:
            raise RewardError(f"{where}: returns the key {key!r}, which verl uses itself; choose another name")
    numbers = {"score": values["score"], "acc": values.get("acc", values["score"]), **values}
    checked = {key: _number(number, f"{where}: {key}") for key, number in numbers.items()}
    return {**checked, "pred": "" if pred is None else utf8(str(pred))}  # type: ignore[typeddict-item]


def _number(value: Any, what: str) -> float:
    """Return what Python, numpy or torch calls a number or a boolean as a float."""
    try:
        if isinstance(value, str | bytes | bytearray) or getattr(value, "ndim", 0):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        text = f"{value!r:.80}"
        raise RewardError(f"{what}={text} is not a number; return a number, or text as `pred`") from None
    if not math.isfinite(number):
        raise RewardError(f"{what}={number} is not a finite number; return a number")
    return number
