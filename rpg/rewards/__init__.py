"""Scores answers, with verl's signature of a custom reward function.

verl imports this in every reward worker, so its import must be fast: no torch, no pandas, and math-verify only in
child processes that start with the first answer that needs them.
"""

from decimal import Context, Decimal
from importlib.util import find_spec
from numbers import Integral, Real
from typing import Any, TypedDict

from rpg.registry.datasets import GYM, is_gym, of_source
from rpg.rewards import release
from rpg.rewards.extract import few_shot_answer
from rpg.rewards.sandbox import Sandbox
from rpg.rewards.verified import judge_response

PACKAGE = "pkg://"  # before the name of a module, in place of a file
OURS = f"{PACKAGE}rpg.rewards"  # this module as reward.custom_reward_function.path
JUDGES = ("release", "verified", "math_verify")  # docs/judges.md
EXACT = Context(prec=400)  # of numbers as text; the usual one keeps 28 digits
gym_sandbox = Sandbox("rpg.rewards.gym")


class Score(TypedDict):
    """The result for verl's reward managers; the keys are the same for every response."""

    score: float
    acc: float
    pred: str


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str | float | None,
    extra_info: dict | None = None,
    *,
    judge: str = "release",
) -> Score:
    """Score one response: {"score": +1.0 or -1.0, "acc": 1.0 or 0.0, "pred": the extracted answer}.

    `pred` is "" if the response has no answer. judge, of `reward.custom_reward_function.reward_kwargs`: "release", the
    release's rule (release.py), "verified", ours (verified/), or "math_verify", the release's rule for MATH
    (Math-Verify on the whole response) for every set.

    The toy task is scored like the integer sets. `reasoning_gym/TASK` is scored by that library, from 0 to 1, whatever
    the judge. The answer to a few-shot prompt begins the response (extract.few_shot_answer).

    Raises ValueError for an unknown data_source or judge, TypeError for a ground truth that is neither text nor a
    number, KeyError for a row of reasoning-gym without the library's entry (rpg.data.gym).
    """
    if judge not in JUDGES:
        raise ValueError(f"judge={judge} is not known; choices: {', '.join(JUDGES)}")
    answer = few_shot_answer(solution_str, extra_info)
    if is_gym(data_source):
        tagged = solution_str if answer is None else f"<answer>{answer}</answer>"
        score, pred = release.judged(gym_sandbox, tagged, (extra_info or {})[GYM])
        return {"score": score, "acc": float(score >= 1), "pred": utf8(pred)}
    if (row := of_source(data_source)) is None:
        raise ValueError(f"data_source {data_source!r} has no score function; rename it (MATH/NAME), or use your own")
    if not isinstance(ground_truth, (str, Real)):
        raise TypeError(f"ground_truth {ground_truth!r} of {data_source!r} is not text; see `rpg data check FILE`")
    truth = as_text(ground_truth)
    by_text = judge == "release" and row.answers != "expression"
    if answer is not None:
        # the text rule keeps what follows the last "=", with the brace of a box
        solution_str = "Answer: " + (answer.partition("\n")[0] if by_text else f"\\boxed{{{answer}}}")
    if judge == "verified":
        correct, pred = judge_response(solution_str, truth, integers_only=row.answers == "sum")
    elif by_text:
        correct, pred = release.judge_text(solution_str, truth)
    else:
        correct, pred = release.judge_expression(solution_str, truth)
    return {"score": 1.0 if correct else -1.0, "acc": float(correct), "pred": utf8(pred)}


def is_known(data_source: str | None) -> bool:
    """Return whether `compute_score` scores rows with this data_source; None: a row without a data_source.

    It scores rows of reasoning-gym only if that library is installed.
    """
    if is_gym(data_source or ""):
        return find_spec(GYM) is not None
    return of_source(data_source) is not None


def utf8(text: str) -> str:
    """Return text that verl can write to its UTF-8 file: a lone surrogate would raise there."""
    return text.encode("utf-8", "replace").decode()


def as_text(truth: Any) -> str:
    """Return a text or True as it is written, a number as a data set would write it: 27.0 is "27", -0.0 "0"."""
    if isinstance(truth, str | bool):
        return str(truth)
    return str(int(truth)) if isinstance(truth, Integral) else f"{EXACT.add(EXACT.normalize(Decimal(str(truth))), 0):f}"
