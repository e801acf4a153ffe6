"""From a published row, in whatever shape, to a problem, or to the reason why it is left out."""

import math
import re
from numbers import Integral, Real
from typing import Any

from rpg.data.readers import DataError
from rpg.data.schema import Problem
from rpg.data.sources import Source
from rpg.data.template import strip_prompt
from rpg.rewards.extract import MAX_ANSWER_CHARS
from rpg.rewards.normalize import as_number

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
        text, answer = _verl_row(row, place)
    else:
        text = row[_column(row, source.text_columns, "problem", source, place)]
        answer = row[_column(row, source.answer_columns, "answer", source, place)]
        context = row.get(source.context_column) if source.context_column else None
        if isinstance(context, str) and context.strip() and isinstance(text, str):
            text = f"{context.strip()}\n\n{text}"
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


def _verl_row(row: dict[str, Any], place: str) -> tuple[Any, Any]:
    reward_model, extra = row["reward_model"], row.get("extra_info")
    if reward_model is None:
        reward_model = {"ground_truth": None}
    if not isinstance(reward_model, dict) or "ground_truth" not in reward_model:
        raise DataError(
            f"{place}, reward_model: {reward_model!r:.80} holds no ground_truth; give rows in verl's schema "
            "or flat rows with a problem and an answer column"
        )
    text = extra.get("raw_problem") if isinstance(extra, dict) else None
    if not text:
        prompt = row["prompt"]
        users = [
            message.get("content")
            for message in (prompt if isinstance(prompt, list) else [])
            if isinstance(message, dict) and message.get("role") == "user"
        ]
        if isinstance(prompt, str):
            users = [prompt]
        text = strip_prompt(users[-1]) if users and isinstance(users[-1], str) else None
    return text, reward_model["ground_truth"]


def _column(row: dict[str, Any], names: tuple[str, ...], what: str, source: Source, place: str) -> str:
    for name in names:
        if name in row:
            return name
    raise DataError(
        f"{place}: no {what} column for {source.name}; it has {', '.join(map(str, row)) or 'none'}, "
        f"one of {', '.join(names)} is needed. Rename the column, or give the file of another set"
    )
