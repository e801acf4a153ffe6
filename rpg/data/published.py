"""The published problem sets: conversion of rows to problems, and the build."""

import math
import re
from collections.abc import Collection
from decimal import Decimal
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from rpg.data.build import Report, digest, distinct_problems
from rpg.data.parquet import Problem, repeated_rows, write_together
from rpg.data.readers import DataError, Rows, read_file
from rpg.data.template import strip_prompt
from rpg.registry.datasets import DATASETS, DataSet
from rpg.rewards.extract import ANSWER_END, MAX_ANSWER_CHARS
from rpg.rewards.number import plain_number

# CJK ideographs, kana and hangul; full-width punctuation alone also occurs in English rows
NOT_ENGLISH = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0002fa1f]")
DEGREES = re.compile(r"\s*(?:\^\s*\{?\s*\\circ\s*\}?|°)$")  # the answer to II-5 of AIME 2025 has them
LARGEST = 10**MAX_ANSWER_CHARS
PROBLEM_COLUMNS = tuple(dict.fromkeys(column for row in DATASETS for column in row.problem_columns))
CONTEXT_COLUMN = "context"  # OlympiadBench; prepended to the question


def build(source: DataSet, rows: Rows, out: Path, repeat: int | None = None, exclude: Collection[bytes] = ()) -> Report:
    """Write `out`/NAME.parquet in one pass of bounded memory and report the rows.

    Raises DataError if no problem is usable; then nothing is written.
    """
    report = Report()

    def problems():
        results = ((place, to_problem(row, source, place)) for place, row in rows)
        yield from distinct_problems(results, source.name, report, exclude)
        if not report.kept:
            reasons = "; ".join(report.lines())
            raise DataError(f"{source.name}: no usable problem in the input ({reasons}); give a file of this set")

    report.written = write_together({out / source.files[0]: repeated_rows(problems(), repeat or source.repeat)})
    if source.problems.isdigit() and report.kept != int(source.problems):
        report.notes.append(f"{source.name} has {source.problems} problems, and the file {report.kept} of them")
    return report


def problem_keys(path: Path) -> set[bytes]:
    """Return the digests of all problems in a built or published file of any set, for `exclude`.

    Raises DataError if it has no problem.
    """
    texts = (problem_in(row, place) for place, row in read_file(path))
    keys = {digest(text) for text in texts if text and text.strip()}
    if not keys:
        raise DataError(f"{path}: no problem in it to exclude; give another file")
    return keys


def to_problem(row: dict[str, Any], source: DataSet, place: str) -> Problem | str:
    """Return the problem of `row`, or the reason why it is left out.

    Reads rows in verl's schema (DAPO-Math-17k, the release's files) and rows of plain columns (most of the hub).
    Raises DataError if the columns are not those of the set.
    """
    text = problem_in(row, place, source.problem_columns)
    truth = answer_text(_answer_in(row, source, place), place)
    if text is None or not text.strip():
        return "empty problem"
    if NOT_ENGLISH.search(text):
        return "not English"
    if not truth:
        return "empty answer"
    if source.has_integers:
        truth = as_integer_text(truth)
        if not truth:
            return "answer is not an integer"
    return Problem(source.data_source, text.strip(), truth, source.split)


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
    text, context = row[_column(row, columns, "problem", place)], row.get(CONTEXT_COLUMN)
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
    """Return an answer as text: no ".0" for integers, joined lists, no $...$."""
    if answer is None or (isinstance(answer, float) and math.isnan(answer)):
        return ""
    if isinstance(answer, (list, tuple)):  # OlympiadBench: one element per part of the answer
        return ", ".join(filter(None, (answer_text(part, place) for part in answer)))
    if isinstance(answer, Real | Decimal) and not isinstance(answer, Integral):
        text = f"{answer if isinstance(answer, Decimal) else Decimal(repr(float(answer))):f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    if not isinstance(answer, (str, Integral)):
        raise DataError(f"{place}, answer: {answer!r:.80} is a {type(answer).__name__}; it must be text or a number")
    text = str(answer).strip()
    is_in_dollars = len(text) > 2 and text[0] == text[-1] == "$" and text.count("$") == 2
    return text[1:-1].strip() if is_in_dollars else text


def as_integer_text(text: str) -> str:
    """Return "27" for "27", "27.0", "027" and "27^\\circ", "1000" for "1,000", and "" for anything but an integer."""
    value = plain_number(DEGREES.sub("", text))
    return str(int(value)) if value is not None and value.denominator == 1 and abs(value) < LARGEST else ""


def _answer_in(row: dict[str, Any], source: DataSet, place: str) -> Any:
    if "reward_model" not in row:
        return row[_column(row, source.answer_columns, f"{source.name} answer", place)]
    reward_model = row["reward_model"]
    if reward_model is None:
        return None
    if not isinstance(reward_model, dict) or "ground_truth" not in reward_model:
        raise DataError(f"{place}, reward_model: {reward_model!r:.80} has no ground_truth; give rows in verl's schema")
    return reward_model["ground_truth"]


def _column(row: dict[str, Any], names: tuple[str, ...], what: str, place: str) -> str:
    for name in names:
        if name in row:
            return name
    raise DataError(
        f"{place}: no {what} column; it has {', '.join(map(str, row)) or 'none'}, one of {', '.join(names)} or verl's "
        "schema is needed. Rename the column, or give the file of another set"
    )
