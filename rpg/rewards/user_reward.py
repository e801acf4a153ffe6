"""Custom reward functions: a Python file with one function.

Two forms are accepted:

- verl's: `compute_score(data_source, solution_str, ground_truth, extra_info=None)`, which verl calls itself;
- a short one: `reward(response, answer)` or `reward(response, answer, row)`, which `compute_score` here calls for verl.
  `row` has data_source, question, and the columns of `rpg data build --keep`.

Both return a number, or a mapping with `score` and optionally `acc`.
"""

import ast
import importlib.util
import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from numbers import Real
from pathlib import Path
from typing import Any

from rpg.rewards import Score

ADAPTER = "pkg://rpg.rewards.user_reward"  # reward.custom_reward_function.path for the short form
USUAL = ("compute_score", "reward")  # preferred names of the function
VERL_PARAMETERS = ("data_source", "solution_str", "ground_truth")


class RewardError(ValueError):
    """A reward file that cannot be used, or a value that is not a reward; the message names it and the remedy."""


@dataclass(frozen=True)
class Reward:
    """A file's reward function: its name, and whether it has verl's form."""

    file: Path
    function: str
    is_verls: bool

    def as_verl_calls_it(self) -> Callable[..., Any]:
        """The function in verl's form, which verl can call."""
        if self.is_verls:
            return load(str(self.file), self.function)
        return partial(compute_score, file=str(self.file), function=self.function)


def find_reward(file: str | Path, name: str | None = None) -> Reward:
    """Find the reward function of a file by reading its source, without running it.

    name: the function's; default: compute_score, reward, or the file's only public function.
    Raises RewardError if there is no such file or not exactly one such function.
    """
    path = Path(str(file).removeprefix("file://")).expanduser().resolve()
    if not path.is_file():
        raise RewardError(f"{file}: no such file; name a Python file with a reward function")
    try:
        body = ast.parse(path.read_bytes()).body
    except (SyntaxError, ValueError) as error:
        raise RewardError(f"{file}: cannot be read as Python ({error}); correct it") from error
    functions = {node.name: node for node in body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}
    public = [function for function in functions if not function.startswith("_")]
    found = [one for one in ([name] if name else USUAL) if one in functions] or ([] if name else public)
    if len(found) != 1 and not set(found) & set(USUAL):
        has = ", ".join(public) or "none"
        raise RewardError(
            f"{file}: {name or 'the reward function'} not found among its functions ({has}); name it reward"
        )
    arguments = functions[found[0]].args
    parameters = [one.arg for one in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)]
    is_verls = set(VERL_PARAMETERS) <= set(parameters) or (not parameters and arguments.kwarg is not None)
    if not is_verls and len(arguments.posonlyargs + arguments.args) < 2:
        raise RewardError(f"{file}: {found[0]}({', '.join(parameters)}) takes no response and answer; add them")
    return Reward(path, found[0], is_verls)


@cache
def load(file: str, function: str) -> Callable[..., Any]:
    """Import the file, once per process, and return its function."""
    spec = importlib.util.spec_from_file_location(f"rpg_own_reward_{abs(hash(file))}", file)
    if spec is None or spec.loader is None:
        raise RewardError(f"{file}: is not a Python file; its name must end in .py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, function)


@cache
def takes_row(function: Callable[..., Any]) -> bool:
    """Return whether a function of the short form has a third parameter."""
    try:
        inspect.signature(function).bind_partial(None, None, None)
    except TypeError:
        return False
    return True


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    *,
    file: str,
    function: str = "reward",
    **options: Any,
) -> Score:
    """Score one response by the short form's function in `file`; `file` and `function` come from reward_kwargs.

    options: further reward_kwargs, passed to the function as keywords.
    Raises RewardError for a value that is not a finite number.
    """
    reward = load(file, function)
    arguments: list[Any] = [solution_str, ground_truth]
    if takes_row(reward):
        extra = dict(extra_info or {})
        question = extra.pop("raw_problem", None)
        arguments.append({**extra, "data_source": data_source, "question": question, "answer": ground_truth})
    return as_score(reward(*arguments, **options), f"{file}, {function}")


def as_score(value: Any, where: str) -> Score:
    """Convert a reward function's result for verl; `acc` defaults to the score.

    Raises RewardError for a value that is not a finite number.
    """
    given = value if isinstance(value, Mapping) else {"score": value}
    score, pred = given.get("score"), given.get("pred", "")
    acc = given.get("acc", score)
    for name, number in (("score", score), ("acc", acc)):
        if not isinstance(number, Real) or not math.isfinite(number):
            raise RewardError(f"{where}: {name}={number!r} is not a finite number; return a number")
    return {**given, "score": float(score), "acc": float(acc), "pred": str(pred)}  # type: ignore[typeddict-item]
