"""From a published row, in whatever shape, to a problem, or to the reason why it is left out."""

import math
import re
from numbers import Integral, Real
from typing import Any

from rpg.data.readers import DataError
from rpg.data.schema import Problem
from rpg.data.sources import SOURCES, Source
from rpg.data.template import strip_prompt
from rpg.rewards.extract import MAX_ANSWER_CHARS
from rpg.rewards.verified.numbers import as_number

# CJK ideographs, kana and hangul; full-width punctuation alone also occurs in English rows
NOT_ENGLISH = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0002fa1f]")
LARGEST = 10**MAX_ANSWER_CHARS

EMPTY_PROBLEM = "empty problem"
NO_ANSWER = "empty answer"
NOT_AN_INTEGER = "answer is no integer"
CHINESE = "not English"


def to_problem(row: dict[str, Any], source: Source, place: str) -> Problem | str:
    """Return the problem of `row`, or the reason (one of the constants above) why it is left out.

    Reads rows in verl's schema (DAPO-Math-17k, the release's files) and flat rows (most of the hub).
    Raises DataError where the columns are not those of the set at all: then no row would be right.
    """
    if "prompt" in row and "reward_model" in row:
        text, answer = _verl_text(row), _verl_answer(row, place)
    else:
        text = _flat_text(row, _column(row, source.text_columns, "problem", source, place), source.context_column)
        answer = row[_column(row, source.answer_columns, "answer", source, place)]
    if text is None or not isinstance(text, str) or not text.strip():
        return EMPTY_PROBLEM
    if NOT_ENGLISH.search(text):
        return CHINESE
    truth = answer_text(answer, place)
    if not truth:
        return NO_ANSWER
    if source.integer_answers:
        truth = as_integer_text(truth)
        if not truth:
            return NOT_AN_INTEGER
    return Problem(source.data_source, text.strip(), truth, source.split)


def question(row: dict[str, Any]) -> str | None:
    """Return the last message of a row's prompt as it stands there; None where there is no readable prompt."""
    prompt = row.get("prompt")
    last = prompt[-1] if isinstance(prompt, list) and prompt else None
    content = last.get("content") if isinstance(last, dict) else None
    return content if isinstance(content, str) else None


def problem_text(row: dict[str, Any]) -> str | None:
    """Return the bare problem of a row, from its prompt; None where there is no readable prompt."""
    content = question(row)
    return None if content is None else strip_prompt(content).strip()


def answer_text(answer: Any, place: str) -> str:
    """Return an answer as text: integers given as floats without ".0", lists joined, $...$ taken off."""
    if answer is None:
        return ""
    if isinstance(answer, (list, tuple)):  # OlympiadBench: one element for each part of the answer
        return ", ".join(part for part in (answer_text(part, place) for part in answer) if part)
    if isinstance(answer, Real) and not isinstance(answer, Integral):
        value = float(answer)
        if math.isnan(value):
            return ""
        return str(int(value)) if value.is_integer() else repr(value)
    if isinstance(answer, (str, Integral)):
        text = str(answer).strip()
        if len(text) > 2 and text[0] == text[-1] == "$" and text.count("$") == 2:
            text = text[1:-1].strip()
        return text
    raise DataError(f"{place}, answer: {answer!r:.80} is a {type(answer).__name__}; it must be text or a number")


def as_integer_text(text: str) -> str:
    """Return "27" for "27", "27.0" and "027", "1000" for "1,000", and "" for anything but an integer."""
    value = as_number(text)
    return str(int(value)) if value is not None and value.denominator == 1 and abs(value) < LARGEST else ""


def problems_in(row: dict[str, Any], place: str) -> list[str]:
    """Return the problem of a row in any layout that `to_problem` reads, whichever set it is of.

    More than one text where columns of several sets stand there; none where the problem is empty.
    Raises DataError where there is no column that any set has its problems in.
    """
    if "prompt" in row:
        texts = [_verl_text(row)]
    else:
        names = sorted({name for source in SOURCES.values() for name in source.text_columns})
        context = next((source.context_column for source in SOURCES.values() if source.context_column in row), None)
        texts = [_flat_text(row, name, context) for name in names if name in row]
        if not texts:
            raise DataError(
                f"{place}: no problem column; it has {', '.join(map(str, row)) or 'none'}, prompt (verl's schema) or "
                f"one of {', '.join(names)} is needed. Rename the column, or build the file with `rpg data build` first"
            )
    return sorted({text for text in texts if isinstance(text, str) and text.strip()})


def _flat_text(row: dict[str, Any], column: str, context_column: str | None) -> Any:
    text, context = row[column], row.get(context_column) if context_column else None
    if isinstance(context, str) and context.strip() and isinstance(text, str):
        return f"{context.strip()}\n\n{text}"
    return text


def _verl_text(row: dict[str, Any]) -> str | None:
    extra = row.get("extra_info")
    text = extra.get("raw_problem") if isinstance(extra, dict) else None
    if text:
        return text
    prompt = row["prompt"]
    users = [
        message.get("content")
        for message in (prompt if isinstance(prompt, list) else [])
        if isinstance(message, dict) and message.get("role") == "user"
    ]
    if isinstance(prompt, str):
        users = [prompt]
    return strip_prompt(users[-1]) if users and isinstance(users[-1], str) else None


def _verl_answer(row: dict[str, Any], place: str) -> Any:
    reward_model = row["reward_model"]
    if reward_model is None:
        return None
    if not isinstance(reward_model, dict) or "ground_truth" not in reward_model:
        raise DataError(
            f"{place}, reward_model: {reward_model!r:.80} holds no ground_truth; give rows in verl's schema "
            "or flat rows with a problem and an answer column"
        )
    return reward_model["ground_truth"]


def _column(row: dict[str, Any], names: tuple[str, ...], what: str, source: Source, place: str) -> str:
    for name in names:
        if name in row:
            return name
    raise DataError(
        f"{place}: no {what} column for {source.name}; it has {', '.join(map(str, row)) or 'none'}, "
        f"one of {', '.join(names)} is needed. Rename the column, or give the file of another set"
    )
