"""Parquet files from a table of questions and answers: a published set, or a user's own."""

import random
import re
from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rpg.data.build import Report, distinct_problems, most_frequent, write_splits
from rpg.data.few_shot import with_examples
from rpg.data.parquet import SCHEMA, Problem, repeated_rows, schema_of, write_together
from rpg.data.published import answer_text, as_integer_text, column_of, problem_in
from rpg.data.readers import HUB, DataError, Rows, read
from rpg.data.template import QUESTION
from rpg.registry.datasets import DataSet
from rpg.rewards.extract import ANSWER_END, last_boxed

# CJK ideographs, kana and hangul; full-width punctuation alone also occurs in English rows
NOT_ENGLISH = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\U00020000-\U0002fa1f]")
GSM8K_MARK = "####"  # the last line of GSM8K's answers: "#### 72"
TEST_SHARE = 0.1
# names of the row that a reward function gets, and of extra_info
OF_THE_ROW = ("question", "answer", "data_source", *SCHEMA.field("extra_info").type.names, ANSWER_END)


@dataclass(frozen=True)
class Table:
    """What to read from a table, and what to write.

    Attributes:
        name: of the files NAME_train.parquet and NAME_test.parquet, or NAME.parquet of a published set with one file.
        origin: what readers.read takes.
        data_source: of the rows. RULE/NAME lets a rule of rpg.rewards score them.
        question, answer: columns, or fields of one: extra_info.question. "" for those of `source`.
        source: the published set.
        keep: columns to copy to extra_info, for reward functions.
        template: text with {question}; None for the paper's; with few_shot an example.
        few_shot: solved training problems in front of each (few_shot.py), 0 for none.
        repeat: rows of each problem.
    """

    name: str
    origin: str
    data_source: str
    question: str = ""
    answer: str = ""
    source: DataSet | None = None
    keep: tuple[str, ...] = ()
    template: str | None = None
    few_shot: int = 0
    repeat: int = 1


def hub_of(source: DataSet) -> str:
    """Return the place of a published set, as readers.read takes it."""
    return f"{HUB}{source.repository}" + (f":{source.config}" if source.config else "")


def build(table: Table, out: Path, test_rows: int | None, seed: int, exclude: Collection[bytes] = ()) -> Report:
    """Write the files, all or none, and report the rows.

    Each question is written once; test questions never go to the training file. Memory: all usable rows.

    Args:
        test_rows: questions to draw by `seed` without usable test rows; None: the share TEST_SHARE.
        exclude: digests of problems to leave out.

    Raises:
        DataError: an unknown column, an impossible split, or no usable row.
    """
    if table.template is not None and not table.few_shot and table.template.count(QUESTION) != 1:
        raise DataError(f"--template: has {QUESTION} {table.template.count(QUESTION)} times; write it once")
    if own := [name for name in table.keep if name in OF_THE_ROW]:
        raise DataError(f"--keep {own[0]}: the built row has its own {own[0]}; rename the column")
    source, has_one_file = table.source, table.source is not None and table.source.split != "both"
    rows, report = _splits(table), Report()
    results = (  # the test split first, because its questions are left out of the training split
        (place, to_problem(table, row, split, place))
        for split in ("test", "train")
        for place, row in rows.get(split, ())
    )
    problems = list(distinct_problems(results, table.name, report, exclude))
    counts = Counter(problem.split for problem in problems)
    if test_rows is not None and (has_one_file or counts["test"]):
        raise DataError(f"--test-rows {test_rows}: {table.origin} has its own split; leave the option out")
    if not has_one_file and ("test" not in rows or test_rows is not None):
        problems = draw_test(problems, test_rows, seed)
        counts = Counter(problem.split for problem in problems)
        if counts["test"]:
            report.notes.append(f"{table.origin} has no test split: {counts['test']} questions are drawn for it")
    if not (problems if has_one_file else counts["train"]):
        reasons = "; ".join(map(str.strip, report.lines())) or "it has no rows"
        raise DataError(f"--from {table.origin}: no usable row ({reasons}); give another file or other columns")
    if not has_one_file and not counts["test"] and test_rows is None:
        report.notes.append(
            "no test file: no usable row for it; give --test-rows N to draw them from the training rows"
        )
    if table.few_shot:
        problems = with_examples(problems, table.few_shot, table.template, seed)
    if has_one_file:
        made = repeated_rows(problems, table.repeat, table.template)
        report.written = write_together({out / f"{table.name}.parquet": made}, schema_of(problems))
        if source and source.problems.isdigit() and report.kept != int(source.problems):
            report.notes.append(f"{source.name} has {source.problems} problems, the file {report.kept}")
    else:
        report.written = write_splits(out, table.name, problems, repeat=table.repeat, template=table.template)
    if frequent := most_frequent(Counter(p.ground_truth for p in problems if p.split == "test" and p.ground_truth)):
        report.notes.append(f"test rows: {frequent}")
    return report


def _splits(table: Table) -> dict[str, Rows]:
    """Return the rows by the split that the built ones have."""
    rows, source = read(table.origin), table.source
    if source and source.split != "both":
        return {source.split: rows.get(source.hub_split) or next(iter(rows.values()))}
    if "train" not in rows:
        raise DataError(f"--from {table.origin}: has the splits {', '.join(rows)}, not train; give --from FILE")
    return rows


def to_problem(table: Table, row: dict[str, Any], split: str, place: str) -> Problem | str:
    """Return the problem of a row, or the reason to leave it out. Raises DataError for an unknown column."""
    source = table.source
    if table.question or not source:
        text = value_in(row, "--question", table.question, place)
        if text is not None and not isinstance(text, str):
            return f"question is no text but a {type(text).__name__}"
    else:
        text = problem_in(row, place, source.problem_columns)
    is_solution = bool(source and source.solution)
    if table.answer or not source:
        answer = value_in(row, "--answer", table.answer, place)
    elif isinstance(reward_model := row.get("reward_model"), dict) and "ground_truth" in reward_model:
        answer, is_solution = reward_model["ground_truth"], False
    else:
        answer = row[column_of(row, source.answer_columns, f"{source.name} answer", place)]
    if isinstance(answer, list) and len(answer) > 1 and not source:
        raise DataError(
            f"--answer {table.answer}: has {len(answer)} values in {place}: {answer!r:.80}; write them as one text, "
            "such as JSON, if your reward function reads them, or name one"
        )
    truth = answer_text(answer, place)
    if not text or not text.strip():
        return "empty problem"
    if source and source.split != "both" and NOT_ENGLISH.search(text):
        return "not English"
    if not truth:
        return "empty answer"
    if source and is_solution:
        truth = final_answer(truth, source.solution)
        if not truth:
            return "no final answer in the solution"
    elif source and source.has_integers and not (truth := as_integer_text(truth)):
        return "answer is not an integer"
    kept = {name: value_in(row, "--keep", name, place) for name in table.keep}
    return Problem(table.data_source, text.strip(), truth, split, kept)


def value_in(row: dict[str, Any], option: str, column: str, place: str) -> Any:
    """Return the value of a column, or of its field for COLUMN.FIELD. Raises DataError if there is none."""
    value: Any = row
    for name in [column] if column in row else column.split("."):
        if value is None:
            return None
        if not isinstance(value, dict) or name not in value:
            raise DataError(f"{option} {column}: no such column in {place}; it has {', '.join(map(repr, row))}")
        value = value[name]
    if isinstance(value, dict) and option != "--keep":
        raise DataError(
            f"{option} {column}: has fields in {place}; name one: {', '.join(f'{column}.{n}' for n in value)}"
        )
    return value


def final_answer(answer: str, rule: str) -> str:
    """Return the final answer of a worked solution, or ""; `rule` is DataSet.solution."""
    if rule == "gsm8k":
        return as_integer_text(answer.rpartition(GSM8K_MARK)[2].strip()) if GSM8K_MARK in answer else ""
    return (last_boxed(answer) or "").strip()


def draw_test(problems: list[Problem], test_rows: int | None, seed: int) -> list[Problem]:
    """Move randomly drawn problems to the test split. Raises DataError if no training row would be left."""
    count = round(TEST_SHARE * len(problems)) if test_rows is None else test_rows
    if problems and count >= len(problems):
        raise DataError(f"--test-rows {count}: must be below {len(problems)}, the number of usable rows")
    drawn = set(random.Random(seed).sample(range(len(problems)), count))
    return [replace(problem, split="test") if n in drawn else problem for n, problem in enumerate(problems)]
