"""The file of a user's reward function, and the values that it returns: a number, or a mapping with `score`, and
optionally `acc`, `pred` (text) and further numbers.
"""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rpg.diagnostics import UserError
from rpg.rewards import Score, utf8

PACKAGE = "pkg://"
# names that verl gives to its own columns of a validation
VERL_COLUMNS = ("input", "output", "gts", "step", "uid", "reward", "acc_success_only")


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


def as_score(value: Any, where: str) -> Score:
    """Convert a reward function's result for verl: all numbers and booleans to float; `acc` defaults to the score.

    Raises RewardError for a value that is not a finite number, and for a key that verl uses itself.
    """
    values = {"score": None, **value} if isinstance(value, Mapping) else {"score": value}
    pred = values.pop("pred", None)
    scores: dict[str, Any] = {}
    for key, number in {"score": None, "acc": values["score"], **values}.items():
        if not isinstance(key, str) or key in VERL_COLUMNS:
            raise RewardError(f"{where}: returns the key {key!r}, which verl cannot log; choose another name")
        try:
            scores[key] = float("text" if isinstance(number, str | bytes) else number)
        except (TypeError, ValueError, OverflowError):
            text = f"{number!r:.80}"
            raise RewardError(f"{where}: {key}={text} is not a number; return a number, or text as `pred`") from None
        if not math.isfinite(scores[key]):
            raise RewardError(f"{where}: {key}={number} is not a finite number; return a number")
    return {**scores, "pred": "" if pred is None else utf8(str(pred))}  # type: ignore[typeddict-item]
