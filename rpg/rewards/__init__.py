"""Scores of answers, in the signature verl calls for a custom reward function.

verl imports this in every reward worker, so importing it must stay cheap: no torch, no pandas, and
math-verify only in a helper process, with the first answer that needs it.
"""

from numbers import Real
from typing import TypedDict

from rpg.rewards.compare import answers_match
from rpg.rewards.extract import MAX_ANSWER_CHARS, extract_answer
from rpg.rewards.sources import KNOWN_DATA_SOURCES, TOY_SOURCES, is_known, require_known

__all__ = ["KNOWN_DATA_SOURCES", "Score", "compute_score", "is_known"]

TIME_LIMIT = 0.5


class Score(TypedDict):
    """What verl's reward managers read; the keys are the same for every response."""

    score: float
    acc: float
    pred: str


def compute_score(
    data_source: str,
    solution_str: str,
    ground_truth: str | float,
    extra_info: dict | None = None,
    *,
    boxed_fallback: bool = True,
    time_limit: float = TIME_LIMIT,
) -> Score:
    """Score one response: {"score": +1.0 or -1.0, "acc": 1.0 or 0.0, "pred": the extracted answer}.

    `pred` is "" where the response gives no answer. `boxed_fallback` also takes the last \\boxed{} of a
    response without "Answer:"; `time_limit` bounds the library's work on one answer, in seconds of
    processor time. Both can be set as `reward.custom_reward_function.reward_kwargs`. `extra_info` is
    part of verl's signature and not needed here.

    Raises ValueError for a data_source that nothing scores, TypeError for a ground truth that is
    neither text nor a number.
    """
    require_known(data_source)
    if not isinstance(ground_truth, (str, Real)):
        raise TypeError(
            f"ground_truth is {ground_truth!r} ({type(ground_truth).__name__}) in a row of {data_source!r}; "
            "it must be text. `rpg data check FILE` names the rows"
        )
    answer = extract_answer(solution_str, boxed_fallback)
    correct = answers_match(answer, str(ground_truth), integers_only=data_source in TOY_SOURCES)
    return {"score": 1.0 if correct else -1.0, "acc": float(correct), "pred": answer[:MAX_ANSWER_CHARS]}
