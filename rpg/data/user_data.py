"""Training and test files from a user's own table, and from gsm8k and math: `rpg data build --from ...`."""

import json
import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from rpg.data.build import SPLITS, Report, distinct_problems, write_splits
from rpg.data.few_shot import with_examples
from rpg.data.parquet import SCHEMA, Problem
from rpg.data.published import answer_text, as_integer_text
from rpg.data.readers import READERS, DataError, Rows, hub_splits, read_file, read_hub
from rpg.data.template import QUESTION
from rpg.registry.datasets import DataSet
from rpg.rewards.extract import ANSWER_END, last_boxed

HUB = "hub:"
GSM8K_MARK = "####"  # the last line of GSM8K's answers: "#### 72"
TEST_SHARE = 0.1
# names of the row that a reward function gets, and of extra_info
OF_THE_ROW = ("question", "answer", "data_source", *SCHEMA.field("extra_info").type.names, ANSWER_END)


@dataclass(frozen=True)
class Table:
    """Options for reading a table of questions and answers, and for its output.

    Attributes:
        name: of the files NAME_train.parquet and NAME_test.parquet; default of data_source.
        question, answer: columns, or nested fields by their path: gold.value.
        keep: columns to copy to extra_info, for reward functions.
        data_source: of the rows; default: the name. RULE/NAME lets a rule of rpg.rewards score them.
        template: text with {question}; None for the paper's.
        answer_rule: DataSet.solution; "": the answer is the whole text.
        hub: the set on the Hugging Face hub.
    """

    name: str
    question: str
    answer: str
    keep: tuple[str, ...] = ()
    data_source: str = ""
    template: str | None = None
    answer_rule: str = ""
    hub: str = ""


def table_of(row: DataSet) -> Table:
    """Return the table of a set with splits, as it is published."""
    return Table(
        row.name,
        row.problem_columns[0],
        row.answer_columns[0],
        data_source=row.data_source,
        answer_rule=row.solution,
        hub=f"{HUB}{row.repository}" + (f":{row.config}" if row.config else ""),
    )


def build_own(
    table: Table,
    origin: str,
    out: Path,
    *,
    test_rows: int | None,
    seed: int | None,
    few_shot: int,
    exclude: Collection[bytes],
) -> Report:
    """Write NAME_train.parquet and NAME_test.parquet in `out`, both or neither, and report the rows.

    Each question is written once; test questions never go to the training file. Memory: all usable rows.

    Args:
        origin: a file, a folder with files train* and test*, or hub:NAME[:CONFIG].
        test_rows: questions to draw by `seed` (None: 0) without usable test rows; None: the share TEST_SHARE.
        few_shot: solved training problems in front of each (few_shot.py), 0 for none; table.template is then an
            example.
        exclude: digests of problems to leave out.

    Raises:
        DataError: an unknown column, an impossible split, or no usable row.
    """
    if table.template is not None and not few_shot and table.template.count(QUESTION) != 1:
        raise DataError(f"--template: has {QUESTION} {table.template.count(QUESTION)} times; write it once")
    for name in table.keep:
        if name in OF_THE_ROW:
            raise DataError(f"--keep {name}: the built row has its own {name}; rename the column")
    rows = splits_of(origin)
    report = Report()
    results = (  # the test split first, because its questions are left out of the training split
        (place, to_problem(table, row, split, place))
        for split in ("test", "train")
        for place, row in rows.get(split, ())
    )
    problems = []
    for problem in distinct_problems(results, table.name, report, exclude):
        for option, value in (("--test-rows", test_rows), ("--seed", None if few_shot else seed)):
            if problem.split == "test" and value is not None:
                raise DataError(f"{option} {value}: {origin} has a test split; leave the option out")
        problems.append(problem)
    if "test" not in rows or (test_rows is not None and all(problem.split == "train" for problem in problems)):
        problems = draw_test(problems, test_rows, seed or 0)
    if not report.read:
        raise DataError(f"--from {origin}: has no rows; give another file")
    if not any(problem.split == "train" for problem in problems):
        reasons = "; ".join(map(str.strip, report.lines()))
        raise DataError(f"--from {origin}: no row to train on ({reasons}); check --question and --answer")
    if test_rows is None and all(problem.split == "train" for problem in problems):
        why = f"{len(problems)} questions are too few for one in ten"
        if "test" in rows:
            why = f"the test split of {origin} has no usable row"
        report.notes.append(f"no test file: {why}; give --test-rows N to draw them from the training rows")
    if "test" not in rows and (drawn := sum(problem.split == "test" for problem in problems)):
        report.notes.append(f"{origin} has no test split: {drawn} questions are drawn for it")
    if few_shot:
        problems = with_examples(problems, few_shot, table.template, seed or 0)
    report.written = write_splits(out, table.name, problems, template=table.template)
    for name in table.keep:
        if changed := _changed_by_parquet([problem.columns[name] for problem in problems]):
            report.notes.append(f"--keep {name}: parquet gives all rows one type: {changed}; JSON text keeps a value")
    return report


def splits_of(origin: str) -> dict[str, Rows]:
    """Return the rows by split of a file, a folder or a set on the hub; only "train" without a test split."""
    if origin.startswith(HUB):
        repository, _, config = origin.removeprefix(HUB).partition(":")
        names = hub_splits(repository, config or None)
        if "train" not in names:
            raise DataError(f"--from {origin}: has the splits {', '.join(names)}, not train; give --from FILE")
        return {split: read_hub(repository, config or None, split) for split in SPLITS if split in names}
    path = Path(origin).expanduser()
    if not path.is_dir():
        return {"train": read_file(path)}
    files = [file for file in sorted(path.rglob("*")) if file.is_file()]
    files = [file for file in files if not any(part.startswith(".") for part in file.relative_to(path).parts)]
    readable = [file for file in files if file.suffix.lower() in READERS]
    named = {split: [file for file in readable if file.name.lower().startswith(split)] for split in SPLITS}
    if not named["train"]:
        raise DataError(f"--from {origin}: no file train*{{{','.join(READERS)}}} in this folder; name a file")
    if other := [file for file in files if file not in readable and file.name.lower().startswith(SPLITS)]:
        raise DataError(f"--from {origin}: {other[0].name} is not read; save it as .csv or .jsonl, or move it away")
    return {split: chain.from_iterable(map(read_file, paths)) for split, paths in named.items() if paths}


def to_problem(table: Table, row: dict[str, Any], split: str, place: str) -> Problem | str:
    """Return the problem of a row, or the reason to leave it out. Raises DataError for an unknown column."""
    question = value_in(row, "--question", table.question, place)
    answer = value_in(row, "--answer", table.answer, place)
    if isinstance(answer, list) and len(answer) > 1:
        raise DataError(
            f"--answer {table.answer}: has {len(answer)} values in {place}: {answer!r:.80}; write them as one text, "
            "such as JSON, if your reward function reads them, or name one"
        )
    answer = answer_text(answer, place)
    if question is not None and not isinstance(question, str):
        return f"question is no text but a {type(question).__name__}"
    if not question or not question.strip():
        return "empty question"
    if not answer:
        return "empty answer"
    truth = final_answer(answer, table.answer_rule)
    if not truth:
        return "no final answer in the solution"
    kept = {name: value_in(row, "--keep", name, place, is_text=False) for name in table.keep}
    return Problem(table.data_source or table.name, question.strip(), truth, split, kept)


def value_in(row: dict[str, Any], option: str, path: str, place: str, is_text: bool = True) -> Any:
    """Return the value of a column, or of a nested field by its dotted path; None if it is null.

    Raises DataError if there is none, or if it is a structure although a text or number is wanted.
    """
    paths = {**dict(_paths(row)), **row}  # a column whose own name has a dot comes first
    if path not in paths:
        if any(path.startswith(f"{above}.") and value is None for above, value in paths.items()):
            return None
        names = ", ".join(map(repr, paths)) or "none"
        raise DataError(f"{option} {path}: no such column in {place}; it has {names}")
    value = paths[path]
    if is_text and isinstance(value, dict):
        fields = ", ".join(f"{path}.{name}" for name in value) or "none"
        raise DataError(f"{option} {path}: has fields in {place}; name one of them: {fields}")
    return value


def _paths(row: dict[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    """Yield path and value of every column and nested field, a column before its fields."""
    for name, value in row.items():
        yield f"{above}{name}", value
        if isinstance(value, dict):
            yield from _paths(value, f"{above}{name}.")


def final_answer(answer: str, rule: str) -> str:
    """Return the final answer of a worked solution, or ""; `rule` is Table.answer_rule."""
    if rule == "gsm8k":
        return as_integer_text(answer.rpartition(GSM8K_MARK)[2].strip()) if GSM8K_MARK in answer else ""
    if rule == "boxed":
        return (last_boxed(answer) or "").strip()
    return answer


def draw_test(problems: list[Problem], test_rows: int | None, seed: int) -> list[Problem]:
    """Move randomly drawn problems to the test split. Raises DataError if no training row would be left."""
    count = round(TEST_SHARE * len(problems)) if test_rows is None else test_rows
    if problems and count >= len(problems):
        raise DataError(f"--test-rows {count}: must be below {len(problems)}, the number of usable rows")
    drawn = set(random.Random(seed).sample(range(len(problems)), count))
    return [replace(problem, split="test") if n in drawn else problem for n, problem in enumerate(problems)]


def _changed_by_parquet(values: list[Any]) -> str:
    """Return the first value that a column's common type changes, before and after; "" if it changes none."""
    for pair in zip(values, pa.array(values).to_pylist(), strict=True):
        before, after = (json.dumps(value, sort_keys=True, default=str) for value in pair)
        if before != after:
            return f"{before:.60} becomes {after:.60}"
    return ""
