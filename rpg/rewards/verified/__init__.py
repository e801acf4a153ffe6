"""The verifier `verified`: compares what answers mean, not how they are written (README.md). One function."""

import re

from rpg.rewards.extract import MAX_ANSWER_CHARS, extract_answer
from rpg.rewards.number import DECIMAL, INTEGER, decimal
from rpg.rewards.verified.formula import as_number
from rpg.rewards.verified.normalize import bare_truth, normalize
from rpg.rewards.verified.values import compact, quantity, same_number

MIXED = re.compile(
    rf"^([+-]?{INTEGER}) (?:and|\\text\{{and\}}) ((?:\\frac\{{[0-9]+\}}\{{[0-9]+\}}|[0-9]+/[0-9]+)(?![0-9/]))"
)
__all__ = ["judge_response"]  # the room's one door (tests/test_layers.py)


def judge_response(response: str, truth: str, integers_only: bool = False) -> tuple[bool, str]:
    """Return whether the response's answer equals `truth` in meaning, and that answer.

    integers_only: nothing but the number itself counts, as for the toy task: no 27 + 48.
    """
    answer, truth = extract_answer(response), bare_truth(truth)
    is_read = 0 < len(answer) <= MAX_ANSWER_CHARS >= len(truth)
    is_right = is_read and _is_same(*_mixed(normalize(answer), normalize(truth)), integers_only)
    return is_right, answer[:MAX_ANSWER_CHARS]


def _mixed(answer: str, truth: str) -> tuple[str, str]:
    """Write "4 and 2/3" as a mixed number if the other text is one number, not two."""
    read = [MIXED.sub(r"\1 \2", text) for text in (answer, truth)]
    if (read[0] == answer) != (read[1] == truth) and all(as_number(quantity(text).value) is not None for text in read):
        return read[0], read[1]
    return answer, truth


def _is_same(answer: str, truth: str, integers_only: bool) -> bool:
    if not answer:
        return False
    if integers_only:
        value = quantity(answer.rsplit("=", 1)[-1].strip()).value.strip()
        return DECIMAL.fullmatch(value) is not None and decimal(value) == as_number(truth)
    if as_number(answer) is not None and as_number(truth) is not None:  # most answers of the integer sets
        return same_number(answer, truth)
    if compact(answer) == compact(truth):
        return True
    from rpg.rewards.verified.equality import same_answer  # imports mpmath, which integer sets do not need

    return same_answer(answer, truth)
