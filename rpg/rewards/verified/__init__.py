"""The verifier `verified`: compares what answers mean, not how they are written (README.md). One function."""

import re

from rpg.rewards.extract import extract_answer
from rpg.rewards.verified.formula import DECIMAL, decimal
from rpg.rewards.verified.normalize import bare_truth, normalize

MAX_ANSWER_CHARS = 200  # the longest answer of MATH-500 has 159 characters
OR = re.compile(r"(.+?)\s*\((?:or|i\.e\.)(?: equivalently)?,? (.+)\)")  # \frac{1}{4} (or 0.25)
RANGE = re.compile(r"(([0-9]+)-([0-9]+))(?: [a-z]{3,}.*)?")  # 3-4 days: no difference
__all__ = ["judge_response"]  # the room's one door (tests/test_layers.py)


def judge_response(response: str, truth: str, integers_only: bool = False) -> tuple[bool, str]:
    """Return whether the response's answer equals `truth` in meaning, and that answer.

    integers_only: nothing but the number itself counts, as for the toy task: no 27 + 48.
    """
    answer, truth = extract_answer(response), bare_truth(truth)
    is_read = 0 < len(answer) <= MAX_ANSWER_CHARS >= len(truth)
    forms = [match.groups() if (match := OR.fullmatch(text)) else (text,) for text in (answer, truth)]
    answers, truths = (list(map(normalize, texts)) for texts in forms)
    is_right = is_read and all(any(_is_same(text, other, integers_only) for other in truths) for text in answers)
    return is_right, answer[:MAX_ANSWER_CHARS]


def _is_same(answer: str, truth: str, integers_only: bool) -> bool:
    if (ends := RANGE.fullmatch(truth)) and int(ends[2]) < int(ends[3]):
        return answer in (truth, ends[1])
    if integers_only:
        answer = answer.rpartition("=")[2].strip()
    if DECIMAL.fullmatch(answer) and DECIMAL.fullmatch(truth):  # most answers of the integer sets
        return decimal(answer) == decimal(truth)
    from rpg.rewards.verified.equality import same_answer  # imports mpmath

    return bool(answer) and not integers_only and same_answer(answer, truth)
