"""The published problem sets: conversion of rows to problems, and the build."""

import math
import re
from collections.abc import Collection
from dataclasses import dataclass
from numbers import Integral, Real
from pathlib import Path
from typing import Any

from rpg.data.build import Report, digest, distinct_problems
from rpg.data.parquet import Problem, repeated_rows, write_together
from rpg.data.readers import DataError, Rows, read_file
from rpg.data.template import strip_prompt
from rpg.rewards.extract import MAX_ANSWER_CHARS
from rpg.rewards.verified.formula import as_number

# CJK ideographs, kana and hangul; full-width punctuation alone also occurs in English rows
NOT_ENGLISH = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0002fa1f]")
LARGEST = 10**MAX_ANSWER_CHARS
TEXT_COLUMNS = ("problem", "Problem", "question")  # spellings of the hub and other common copies
CONTEXT_COLUMN = "context"  # OlympiadBench; prepended to the question


@dataclass(frozen=True)
class Source:
    """One problem set: its place on the Hugging Face hub, its layout, and its output.

    Attributes:
        name: of the set and of the launch scripts' parquet file.
        repository, hub_split, config: its place on the hub.
        data_source: value to write; default: the name.
        repeat: copies of each problem, one response each: Mean@32 needs 32.
        answer_columns: names of the answer's column; the first present one is read.
    """

    name: str
    repository: str = ""
    hub_split: str = "train"
    config: str | None = None
    data_source: str = ""
    split: str = "test"
    repeat: int = 1
    integer_answers: bool = False
    answer_columns: tuple[str, ...] = ("answer", "Answer")


SOURCES = {
    source.name: source
    for source in (
        Source(
            "dapo-math-17k-eng",
            "BytedTsinghua-SIA/DAPO-Math-17k",
            "train",
            data_source="math-dapo",
            split="train",
            integer_answers=True,
            answer_columns=("answer", "solution"),
        ),
        Source("aime24", "HuggingFaceH4/aime_2024", "train", repeat=32, integer_answers=True),
        Source("aime25", "math-ai/aime25", "test", repeat=32, integer_answers=True),
        Source("amc23", "math-ai/amc23", "test", repeat=32, integer_answers=True),
        Source("minerva-math", "math-ai/minervamath", "test"),
        Source(
            "olympiadbench",
            "Hothan/OlympiadBench",
            "train",
            config="OE_TO_maths_en_COMP",
            answer_columns=("final_answer", "answer"),
        ),
        Source("math-500", "HuggingFaceH4/MATH-500", "test"),
    )
}


def build(source: Source, rows: Rows, out: Path, repeat: int | None = None, exclude: Collection[bytes] = ()) -> Report:
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

    report.written = write_together(
        {out / f"{source.name}.parquet": repeated_rows(problems(), repeat or source.repeat)}
    )
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


def to_problem(row: dict[str, Any], source: Source, place: str) -> Problem | str:
    """Return the problem of `row`, or the reason why it is left out.

    Reads rows in verl's schema (DAPO-Math-17k, the release's files) and rows of plain columns (most of the hub).
    Raises DataError if the columns are not those of the set.
    """
    text = problem_in(row, place)
    truth = answer_text(_answer_in(row, source, place), place)
    if text is None or not text.strip():
        return "empty problem"
    if NOT_ENGLISH.search(text):
        return "not English"
    if not truth:
        return "empty answer"
    if source.integer_answers:
        truth = as_integer_text(truth)
        if not truth:
            return "answer is not an integer"
    return Problem(source.data_source or source.name, text.strip(), truth, source.split)


def problem_in(row: dict[str, Any], place: str) -> str | None:
    """Return the problem of a row in verl's schema or in plain columns, or None.

    Raises DataError if none of the columns is present.
    """
    if "prompt" in row:
        extra, prompt = row.get("extra_info"), row["prompt"]
        raw = extra.get("raw_problem") if isinstance(extra, dict) else None
        return raw or (strip_prompt(prompt) if isinstance(prompt, str) else problem_text(row))
    text, context = row[_column(row, TEXT_COLUMNS, "problem", place)], row.get(CONTEXT_COLUMN)
    if not isinstance(text, str):
        return None
    return f"{context.strip()}\n\n{text}" if isinstance(context, str) and context.strip() else text


def question(row: dict[str, Any]) -> str | None:
    """Return the last message of a row's prompt, or None without a readable prompt."""
    prompt = row.get("prompt")
    last = prompt[-1] if isinstance(prompt, list) and prompt else None
    content = last.get("content") if isinstance(last, dict) else None
    return content if isinstance(content, str) else None


def problem_text(row: dict[str, Any]) -> str | None:
    """Return the problem in a row's prompt, or None without a readable prompt."""
    content = question(row)
    return None if content is None else strip_prompt(content).strip()


def answer_text(answer: Any, place: str) -> str:
    """Return an answer as text: no ".0" for integers, joined lists, no $...$."""
    if answer is None or (isinstance(answer, float) and math.isnan(answer)):
        return ""
    if isinstance(answer, (list, tuple)):  # OlympiadBench: one element per part of the answer
        return ", ".join(filter(None, (answer_text(part, place) for part in answer)))
    if isinstance(answer, Real) and not isinstance(answer, Integral):
        value = float(answer)
        return str(int(value)) if value.is_integer() else repr(value)
    if not isinstance(answer, (str, Integral)):
        raise DataError(f"{place}, answer: {answer!r:.80} is a {type(answer).__name__}; it must be text or a number")
    text = str(answer).strip()
    is_in_dollars = len(text) > 2 and text[0] == text[-1] == "$" and text.count("$") == 2
    return text[1:-1].strip() if is_in_dollars else text


def as_integer_text(text: str) -> str:
    """Return "27" for "27", "27.0" and "027", "1000" for "1,000", and "" for anything but an integer."""
    value = as_number(text)
    return str(int(value)) if value is not None and value.denominator == 1 and abs(value) < LARGEST else ""


def _answer_in(row: dict[str, Any], source: Source, place: str) -> Any:
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
