"""A custom reward function: its file, and its calls in a process (user_child.py)."""

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rpg.diagnostics import UserError
from rpg.rewards import OURS, PACKAGE, Score
from rpg.rewards.sandbox import START_SECONDS, Sandbox

ADAPTER = "pkg://rpg.rewards.user_reward"  # reward.custom_reward_function.path


class RewardError(UserError):
    """A reward file that cannot be used, or a value that is not a reward; the message names it and the remedy."""


def reward_file(file: str | Path) -> str:
    """Return pkg://MODULE, or the absolute path of a file. Raises RewardError if there is no such file."""
    name = str(file)
    if name.startswith(PACKAGE):
        return PACKAGE + name.removeprefix(PACKAGE).replace("/", ".")
    path = Path(name.removeprefix("file://")).expanduser().absolute()
    if not path.is_file():
        raise RewardError(f"{file}: no such file; name a Python file with a reward function")
    return str(path)


def function_of(file: str | None, judge: str | None) -> dict[str, Any]:
    """Return reward.custom_reward_function: the function in a file, if one is given, or a judge of rpg.rewards."""
    keywords = {"file": reward_file(file)} if file else {"judge": judge}
    return {"path": ADAPTER if file else OURS, "name": "compute_score", "reward_kwargs": keywords}


@cache
def sandbox_of(file: str, function: str | None) -> Sandbox:
    """Return this process's sandbox for a reward function."""
    return Sandbox("rpg.rewards.user_child", file, function or "")


def call(file: str, function: str | None = None, *request: Any, limit: float | None = None) -> Any:
    """Return the answer of a child that has imported the file or pkg://MODULE; without a request, only import it.

    Raises RewardError if that fails, if there is no such function, and for a call that raises or exceeds the limit.
    """
    try:
        return sandbox_of(file, function).call(*request, limit=limit)
    except TimeoutError:
        raise RewardError(f"the reward took more than {limit or START_SECONDS:g} s (rpg.reward_limit)") from None
    except (ConnectionError, RuntimeError) as error:
        raise RewardError(str(error)) from None


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    *,
    file: str,
    function: str | None = None,
    reward_limit: float | None = None,
    **options: Any,
) -> Score:
    """Score one response by the function in `file`; `file` and `function` come from reward_kwargs.

    verl gives data_source as a text of numpy's, and {} for a row without extra_info: the function gets a str and {}.
    reward_limit: seconds for the call, without the wait for a process; rpg.reward_limit in a run.
    options: further reward_kwargs, passed to the function as keywords.
    Raises RewardError as `call`, and for a value that is not a reward.
    """
    extra = {} if extra_info is None else extra_info
    return call(file, function, str(data_source), solution_str, ground_truth, extra, options, limit=reward_limit)
