"""The problems of a table of questions and answers: a published set, or a user's own. Each once, as text."""

import hashlib
import random
import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from tqdm import tqdm

from rpg.data.parquet import SCHEMA, Problem
from rpg.data.readers import read, read_file
from rpg.data.template import bare, problem_of, question
from rpg.diagnostics import UserError
from rpg.registry.datasets import DataSet, of_source
from rpg.rewards import as_text
from rpg.rewards.extract import ANSWER_END, IN_DOLLARS, LAST_LINE, boxed_list, boxes, last_list

# CJK ideographs, kana and hangul; full-width punctuation alone also occurs in English rows
NOT_ENGLISH = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0002fa1f]")
# a list or verl's struct as text, as pandas writes them to a CSV; for a user's function it may be tests
NESTED = re.compile(r"""\[['"]|\{['"](?:.*['"])?ground_truth['"]:""", re.DOTALL)
CHAT = re.compile(r"""\[\s*\{\s*['"](?:role|content|from|value)['"]""")  # as pandas writes a list of messages to a CSV
HYPHENS = str.maketrans("\u2212\u2010\u2011", "---")
# with degrees, as in the answer to II-5 of AIME 2025
INTEGER = re.compile(r"([+-]?(?:[0-9]{1,3}(?:,[0-9]{3})+|[0-9]+))(?:\.0*)?\s*(?:\^\s*\{?\s*\\circ\s*\}?|°)?")
TEST_SHARE = 0.1
OF_EXTRA_INFO = (*SCHEMA.field("extra_info").type.names, ANSWER_END)


def problems_of(
    source: DataSet, origin: str, keep: Sequence[str], test_size: int | None, seed: int, exclude: Collection[bytes]
) -> list[Problem]:
    """Return each problem once, in its split; print what is left out.

    Args:
        origin: what readers.read takes.
        keep: columns to copy to extra_info, for reward functions.
        test_size: problems to draw by `seed` without usable test rows; None: the share TEST_SHARE without a test split.
        exclude: digests of problems to leave out.

    Raises:
        UserError: an unknown column, or an impossible split.
    """
    if taken := [name for name in keep if name in OF_EXTRA_INFO]:
        raise UserError(f"--keep {taken[0]}: the built row has its own {taken[0]}; rename the column")
    rows = read(origin)
    if source.split != "both":
        split = source.hub_split if len(rows) > 1 else next(iter(rows))
        if split not in rows:
            raise UserError(f"{origin}: has no split {split}, only {', '.join(rows)}; give the file to read")
        rows = {source.split: rows[split]}
    elif unused := sorted(rows.keys() - {"train", "test"}):
        print(f"note: {origin}: split {', '.join(unused)} is not used; to use it, rename it to train or test")
    results = (  # test questions are left out of the training split
        (place, to_problem(source, keep, row, split, place))
        for split in ("test", "train")
        for place, row in rows.get(split, ())
    )
    problems = distinct_problems(results, exclude)
    systems = Counter(problem.system for problem in problems if problem.system)
    for text, count in systems.most_common(1):
        print(f"note: {origin}: system messages are left out ({len(systems)}, the first in {count} rows: {text!r:.60})")
    if source.split != "both":
        if source.problems.isdigit() and len(problems) != int(source.problems):
            print(f"note: {source.name} has {source.problems} problems, the file {len(problems)}")
        return problems
    if any(problem.split == "test" for problem in problems):
        return problems
    if test_size is None:
        test_size = 0 if "test" in rows else round(TEST_SHARE * len(problems))
    if test_size >= len(problems) > 0:
        raise UserError(f"--test-size {test_size}: must be below {len(problems)}, the number of usable rows")
    print(f"note: no usable test row; the test split is {test_size} of {len(problems)} problems (--test-size N)")
    drawn = set(random.Random(seed).sample(range(len(problems)), test_size))
    return [replace(problem, split="test") if n in drawn else problem for n, problem in enumerate(problems)]


def to_problem(source: DataSet, keep: Sequence[str], row: dict[str, Any], split: str, place: str) -> Problem | str:
    """Return the problem of a row, or the reason to leave it out.

    Raises UserError for an unknown column, or a value that is no text or number.
    """
    if unknown := [name for name in (source.question, source.answer, *keep) if name not in row]:
        raise UserError(f"{place}: no column {unknown[0]!r}; it has {', '.join(map(repr, row)) or 'none'}")
    if any(image and image == image for image in (row.get("image"), row.get("images"))):  # not NaN
        return "it has an image"
    text, answer, system = row[source.question], row[source.answer], ""
    if isinstance(text, str):
        text = bare(text)
    elif question({"prompt": text}) is not None:
        turns = [message for message in text if message.get("role") != "system"]
        if len(turns) != 1 or turns[0].get("role") == "assistant":
            return "a conversation of several turns"
        system = "\n".join(str(message.get("content")) for message in text if message not in turns)
        text = problem_of({**row, "prompt": turns})
    if source.context and row.get(source.context):
        text = f"{row[source.context].strip()}\n\n{text}"
    if source.repository and isinstance(answer, list):  # OlympiadBench: an element per part of the answer
        answer = ", ".join(answer_text(part, place) for part in answer)
    truth = answer_text(answer, place)
    if text is None or text != text or (isinstance(text, str) and not text.strip()):  # NaN
        return "empty problem"
    if not isinstance(text, str) or CHAT.match(text):
        kind = "chat in a text" if isinstance(text, str) else type(text).__name__
        raise UserError(f"{place}, question: {text!r:.80} is a {kind}; write it as text, a chat in parquet or JSON")
    if source.split != "both" and NOT_ENGLISH.search(text):
        return "not English"
    if of_source(source.data_source) is not None:  # a rule of rpg compares the answer
        if NESTED.match(truth):
            raise UserError(f"{place}, answer: {truth!r:.80} is a list or struct in a text; write the answer alone")
        solution, truth = truth, without_solution(truth, source.solution == "boxed")
        if (solution and not truth) or (source.solution == "boxed" and truth == solution):
            return "no boxed answer"
    if not truth:
        return "empty answer"
    if source.has_integers and not (truth := as_integer_text(truth)):
        return "answer is not an integer"
    return Problem(source.data_source, text.strip(), truth, split, {name: row[name] for name in keep}, system=system)


def answer_text(answer: Any, place: str) -> str:
    """Return an answer as text: no ".0" for integers, "0" for -0.0, no $...$. Raises UserError for another value."""
    if answer is None or answer != answer:  # NaN
        return ""
    if isinstance(answer, float) and has_lost_digits(answer):
        raise UserError(f"{place}, answer: {answer!r}, read as a float, may have lost digits; write it as text")
    if isinstance(answer, dict) and "ground_truth" in answer:  # verl's schema, in which DAPO-Math-17k is published
        return answer_text(answer["ground_truth"], place)
    if isinstance(answer, list) and len(answer) == 1:
        return answer_text(answer[0], place)
    if isinstance(answer, bool) or not isinstance(answer, (str, Real, Decimal)):
        raise UserError(f"{place}, answer: {answer!r:.80} is a {type(answer).__name__}; write it as text or a number")
    return IN_DOLLARS.sub(r"\1", answer.strip()) if isinstance(answer, str) else as_text(answer)


def has_lost_digits(number: float) -> bool:
    """Return whether a float may be another number than the one written: from 2**53 on, or in single precision.

    0.1 of a column in single precision is 0.10000000149011612; 1500000.8 is 1500000.75.
    """
    if abs(number) >= 2**53:
        return True
    single = np.float32(number)
    return number % 1 != 0 and float(single) == number and str(single) != str(number)


def without_solution(truth: str, is_any_box: bool = False) -> str:
    """Return what a rule of rpg compares: 72 of GSM8K's "... #### 72", the last box or list of boxes, else the text.

    "" if the box is a part of a formula, unless is_any_box: MATH defines its answers as what is in the last box.
    """
    if last := LAST_LINE.search(truth):
        return last[1]
    if not (found := boxes(truth)):
        return truth
    return last_list(truth, found)[0] if is_any_box else boxed_list(truth)


def as_integer_text(text: str) -> str:
    """Return "27" for "27", "27.0", "027" and "27^\\circ", "1000" for "1,000", and "" for anything but an integer."""
    integer = INTEGER.fullmatch(text.strip())
    return str(int(integer[1].replace(",", ""))) if integer else ""


def digest(text: str) -> bytes:
    """Return 16 bytes, equal for texts that differ only in white space or in their Unicode form.

    The form: composed or not, invisible characters such as U+FEFF, and the sign for minus.
    """
    if not text.isascii():
        composed = unicodedata.normalize("NFC", text).translate(HYPHENS)
        text = "".join(character for character in composed if unicodedata.category(character) != "Cf")
    return hashlib.blake2b(" ".join(text.split()).encode("utf-8", "replace"), digest_size=16).digest()


def distinct_problems(
    results: Iterable[tuple[str, Problem | str]], exclude: Collection[bytes] = (), wanted: int | None = None
) -> list[Problem]:
    """Return each problem once, at most `wanted`; print how many rows are left out, and why.

    Memory: two short hashes for each distinct problem. Of a problem with two answers the first is kept.

    Args:
        results: place of a row, and its problem or the reason to leave out the row.
        exclude: digests of problems to leave out.
    """
    kept, answers = list[Problem](), dict[bytes, bytes]()
    left_out, first = Counter[str](), dict[str, str]()
    for place, result in tqdm(results, unit=" rows", disable=None):  # None: show only on a terminal
        if isinstance(result, str):
            reason = result
        else:
            key, answer = digest(result.text), digest(result.ground_truth or "")
            if key not in exclude and key not in answers:
                answers[key] = answer
                kept.append(result)
                if len(kept) == wanted:
                    break
                continue
            other = "" if answers.get(key) == answer else " with another answer"
            reason = "in a file of --exclude" if key in exclude else f"repeats an earlier problem{other}"
        left_out[reason] += 1
        first.setdefault(reason, place)
    print(f"{len(kept) + left_out.total()} rows read, {len(kept)} problems kept")
    for reason, count in left_out.most_common():
        print(f"  {count} left out: {reason} (first: {first[reason]})")
    return kept


def problem_keys(path: Path) -> set[bytes]:
    """Return the digests of all problems in a file, and print how many there are. Raises UserError for none."""
    keys = {digest(text) for _, row in read_file(path) if (text := problem_of(row))}
    if not keys:
        raise UserError(f"{path}: no problem in it to exclude; give a file that `rpg data build` wrote")
    print(f"{path}: {len(keys)} problems to keep out")
    return keys
