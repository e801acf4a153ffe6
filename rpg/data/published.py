"""Questions and answers of rows, in verl's schema or in plain columns."""

import re
from collections.abc import Sequence
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np

from rpg.data.build import digest
from rpg.data.readers import DataError, read_file
from rpg.data.template import strip_prompt
from rpg.registry.datasets import DATASETS
from rpg.rewards.extract import IN_DOLLARS
from rpg.rewards.number import plain_number

DEGREES = re.compile(r"\s*(?:\^\s*\{?\s*\\circ\s*\}?|°)$")  # the answer to II-5 of AIME 2025 has them
PROBLEM_COLUMNS = tuple(dict.fromkeys(column for row in DATASETS for column in row.problem_columns))
CONTEXT_COLUMN = "context"  # OlympiadBench; prepended to the question


def problem_keys(path: Path) -> set[bytes]:
    """Return the digests of all problems in a built or published file of any set, and print how many there are.

    Raises DataError if it has no problem.
    """
    texts = (problem_in(row, place) for place, row in read_file(path))
    keys = {digest(text) for text in texts if text and text.strip()}
    if not keys:
        raise DataError(f"{path}: no problem in it to exclude; give another file")
    print(f"{path}: {len(keys)} problems to keep out")
    return keys


def problem_in(row: dict[str, Any], place: str, columns: Sequence[str] = PROBLEM_COLUMNS) -> str | None:
    """Return the problem of a row in one of these plain columns or in verl's schema, or None.

    Raises DataError if none of the columns is present.
    """
    if "prompt" in row and not row.keys() & {*columns}:
        return strip_prompt(row["prompt"]) if isinstance(row["prompt"], str) else problem_of(row)
    text, context = value_in(row, place, columns), row.get(CONTEXT_COLUMN)
    return f"{context.strip()}\n\n{text}" if text and isinstance(context, str) and context.strip() else text


def problem_of(row: dict[str, Any]) -> str | None:
    """Return the problem in the prompt of a row in verl's schema, or None without a readable prompt.

    In a prompt with another template, or with solved examples, it is known from extra_info.
    """
    content, extra = question(row) or "", row.get("extra_info") or {}
    for raw in (extra.get("raw_problem"), extra.get("question")):  # ours, verl's for gsm8k
        if isinstance(raw, str) and raw.strip() and raw.strip() in content:
            return raw.strip()
    return strip_prompt(content).strip() or None


def question(row: dict[str, Any]) -> str | None:
    """Return the last message of a row's prompt, or None without a readable prompt."""
    prompt = row.get("prompt")
    last = prompt[-1] if isinstance(prompt, list) and prompt else None
    content = last.get("content") if isinstance(last, dict) else None
    return content if isinstance(content, str) else None


def value_in(row: dict[str, Any], place: str, columns: Sequence[str]) -> Any:
    """Return the value of the first of these columns that a row has. Raises DataError for none."""
    for name in columns:
        if name in row:
            return row[name]
    has = ", ".join(map(repr, row)) or "none"
    raise DataError(f"{place}: no column {' or '.join(map(repr, columns))}; it has {has}")


def answer_text(answer: Any, place: str) -> str:
    """Return an answer as text: no ".0" for integers, "0" for -0.0, no $...$. Raises DataError for another value."""
    if answer is None or answer != answer:  # NaN
        return ""
    if isinstance(answer, bool) or not isinstance(answer, (str, Real, Decimal)):
        raise DataError(f"{place}, answer: {answer!r:.80} is a {type(answer).__name__}; write it as text or a number")
    if isinstance(answer, str):
        dollars = IN_DOLLARS.fullmatch(answer.strip())
        return (dollars[1] if dollars else answer).strip()
    if isinstance(answer, Integral):
        return str(answer)
    single = np.float32(answer)  # 0.1 in single precision is 0.10000000149
    written = single if single == answer and answer % 1 != 0 else answer
    return f"{Decimal(str(written)).normalize() + 0:f}"


def as_integer_text(text: str) -> str:
    """Return "27" for "27", "27.0", "027" and "27^\\circ", "1000" for "1,000", and "" for anything but an integer."""
    value = plain_number(DEGREES.sub("", text))
    return str(int(value)) if value is not None and value.denominator == 1 else ""
