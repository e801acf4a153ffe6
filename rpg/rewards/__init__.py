"""Scores of answers, in the signature verl calls for a custom reward function.

verl imports this in every reward worker, so importing it must stay cheap: no torch, no pandas, no sympy.
"""

import re

from rpg.rewards.sources import KNOWN_DATA_SOURCES, is_known, require_known

__all__ = ["KNOWN_DATA_SOURCES", "compute_score", "is_known"]

ANSWER_LINE = re.compile(r"^[ \t*]*answer[ \t*]*:[ \t*]*([^\n]*)", re.IGNORECASE | re.MULTILINE)
INTEGER = re.compile(r"[+-]?\d{1,400}")


def compute_score(
    data_source: str, solution_str: str, ground_truth: str, extra_info: dict | None = None
) -> dict[str, float | str]:
    """Score one response: {"score": +1.0 or -1.0, "acc": 1.0 or 0.0, "pred": the extracted answer}.

    `pred` is "" where the response gives no answer. Raises ValueError for an unknown data_source.
    """
    require_known(data_source)
    answers = ANSWER_LINE.findall(solution_str)
    pred = answers[-1].strip().strip("$").rstrip(".") if answers else ""
    correct = as_integer(pred) is not None and as_integer(pred) == as_integer(str(ground_truth))
    return {"score": 1.0 if correct else -1.0, "acc": float(correct), "pred": pred}


def as_integer(text: str) -> int | None:
    """Return the integer that `text` spells, with or without thousands separators, else None."""
    plain = text.strip().replace(",", "")
    return int(plain) if INTEGER.fullmatch(plain) else None
