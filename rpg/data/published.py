"""Conversion of rows, in verl's schema or in plain columns, to questions and answers."""

import math
import re
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from rpg.data.build import digest
from rpg.data.readers import DataError, read_file
from rpg.data.template import strip_prompt
from rpg.registry.datasets import DATASETS
from rpg.rewards.extract import ANSWER_END, MAX_ANSWER_CHARS
from rpg.rewards.number import plain_number

DEGREES = re.compile(r"\s*(?:\^\s*\{?\s*\\circ\s*\}?|°)$")  # the answer to II-5 of AIME 2025 has them
LARGEST = 10**MAX_ANSWER_CHARS
PROBLEM_COLUMNS = tuple(dict.fromkeys(column for row in DATASETS for column in row.problem_columns))
CONTEXT_COLUMN = "context"  # OlympiadBench; prepended to the question


def problem_keys(path: Path) -> set[bytes]:
    """Return the digests of all problems in a built or published file of any set, for `exclude`.

    Raises DataError if it has no problem.
    """
    texts = (problem_in(row, place) for place, row in read_file(path))
    keys = {digest(text) for text in texts if text and text.strip()}
    if not keys:
        raise DataError(f"{path}: no problem in it to exclude; give another file")
    return keys


def problem_in(row: dict[str, Any], place: str, columns: tuple[str, ...] = PROBLEM_COLUMNS) -> str | None:
    """Return the problem of a row in verl's schema or in one of these plain columns, or None.

    Raises DataError if none of the columns is present.
    """
    if "prompt" in row:
        extra, prompt = row.get("extra_info"), row["prompt"]
        for key in ("raw_problem", "question"):  # ours, verl's for gsm8k
            if isinstance(extra, dict) and isinstance(raw := extra.get(key), str) and raw:
                return raw
        return strip_prompt(prompt) if isinstance(prompt, str) else problem_text(row)
    text, context = row[column_of(row, columns, "problem", place)], row.get(CONTEXT_COLUMN)
    if not isinstance(text, str):
        return None
    return f"{context.strip()}\n\n{text}" if isinstance(context, str) and context.strip() else text


def question(row: dict[str, Any]) -> str | None:
    """Return the last message of a row's prompt, or None without a readable prompt."""
    prompt = row.get("prompt")
    last = prompt[-1] if isinstance(prompt, list) and prompt else None
    content = last.get("content") if isinstance(last, dict) else None
    return content if isinstance(content, str) else None


def is_few_shot(row: dict[str, Any]) -> bool:
    """Return whether solved examples are in front of a row's problem (few_shot.py)."""
    extra = row.get("extra_info")
    return isinstance(extra, dict) and bool(extra.get(ANSWER_END))


def problem_text(row: dict[str, Any]) -> str | None:
    """Return the problem in a row's prompt, without few-shot examples, or None without a readable prompt."""
    content = question(row)
    if content and is_few_shot(row):
        return row["extra_info"].get("raw_problem")
    return None if content is None else strip_prompt(content).strip()


def answer_text(answer: Any, place: str) -> str:
    """Return an answer as text: no ".0" for integers, joined lists, no $...$. Raises DataError for another value."""
    if answer is None or (isinstance(answer, float) and math.isnan(answer)):
        return ""
    if isinstance(answer, (list, tuple)):  # OlympiadBench: one element per part of the answer
        return ", ".join(filter(None, (answer_text(part, place) for part in answer)))
    if isinstance(answer, bool) or not isinstance(answer, (str, Real, Decimal)):
        raise DataError(f"{place}, answer: {answer!r:.80} is a {type(answer).__name__}; write it as text or a number")
    if not isinstance(answer, (str, Integral)):
        text = f"{answer if isinstance(answer, Decimal) else Decimal(repr(float(answer))):f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
        return "0" if text == "-0" else text
    text = str(answer).strip()
    is_in_dollars = len(text) > 2 and text[0] == text[-1] == "$" and text.count("$") == 2
    return text[1:-1].strip() if is_in_dollars else text


def as_integer_text(text: str) -> str:
    """Return "27" for "27", "27.0", "027" and "27^\\circ", "1000" for "1,000", and "" for anything but an integer."""
    value = plain_number(DEGREES.sub("", text))
    return str(int(value)) if value is not None and value.denominator == 1 and abs(value) < LARGEST else ""


def column_of(row: dict[str, Any], names: tuple[str, ...], what: str, place: str) -> str:
    """Return the first of the columns that a row has; raises DataError for none."""
    for name in names:
        if name in row:
            return name
    raise DataError(
        f"{place}: no {what} column; it has {', '.join(map(str, row)) or 'none'}, one of {', '.join(names)} or verl's "
        "schema is needed. Rename the column, or give the file of another set"
    )
