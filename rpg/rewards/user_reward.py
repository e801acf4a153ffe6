"""Calls a custom reward function in a process (user_child.py), for verl, `rpg score` and `rpg doctor`."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from rpg.rewards import Score
from rpg.rewards.extract import few_shot_response
from rpg.rewards.sandbox import START_SECONDS, Sandbox
from rpg.rewards.user_function import RewardError

ADAPTER = "pkg://rpg.rewards.user_reward"  # reward.custom_reward_function.path


class RewardTimeout(RewardError):
    """The function did not return within the limit."""


@cache
def sandbox_of(file: str, function: str | None) -> Sandbox:
    """Return this process's sandbox for a reward function."""
    return Sandbox("rpg.rewards.user_child", file, function or "")


def load(file: str, function: str | None = None) -> None:
    """Import the file or pkg://MODULE in a child. Raises RewardError if that fails or it has no such function."""
    _call(file, function)


def _call(file: str, function: str | None, *request: Any, limit: float | None = None) -> Any:
    try:
        return sandbox_of(file, function).call(*request, limit=limit)
    except TimeoutError:
        raise RewardTimeout(f"the reward took more than {limit or START_SECONDS:g} s (rpg.reward_limit)") from None
    except ConnectionError as error:
        raise RewardError(f"{file}: {error}") from None
    except RuntimeError as error:
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
    Raises RewardError for a call that raises or exceeds the limit, and for a value that is not a reward.
    """
    extra = {} if extra_info is None else extra_info
    return _call(file, function, str(data_source), solution_str, ground_truth, extra, options, limit=reward_limit)


WRONG = "no such answer"
# forms of an answer
TAGS, BOXED, LINE = "<answer>ANSWER</answer>", "\\boxed{ANSWER}", "Answer: ANSWER"


def forms_of(prompt: Any) -> list[str]:
    """Return the forms of an answer that a prompt asks for: tags, else the others; box and line if it asks for none."""
    text = str(prompt)
    if "<answer>" in text:
        return [TAGS]
    return [form for form, sign in ((BOXED, "boxed"), (LINE, "Answer:")) if sign in text] or [BOXED, LINE]


def example(answer: Any, prompt: Any, extra_info: Mapping[str, Any] | None = None) -> str:
    """Return a response with this answer in the form that the prompt asks for; after few-shot examples, that alone."""
    if few_shot := few_shot_response(str(answer), extra_info):
        return few_shot
    return "\n\n".join(["Step by step.", *(form.replace("ANSWER", str(answer)) for form in forms_of(prompt))])


def blind_to(prompt: Any) -> str:
    """Return why right and wrong answers may score alike, for a message."""
    asked = " and ".join(forms_of(prompt))
    return f"the reward may not see the form that the prompt asks for ({asked})"


def shown_score(score: Score) -> str:
    """Return the numbers that a run logs for a response, as text."""
    return ", ".join(f"{key} {value:g}" for key, value in score.items() if isinstance(value, float))
