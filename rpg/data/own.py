"""Training and test files from a user's own table, and from gsm8k and math: `rpg data build --from ...`."""

import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from rpg.data.build import EXCLUDED, LeftOut, digest
from rpg.data.parquet import SCHEMA, Problem, make_row, write_together
from rpg.data.published import answer_text, as_integer_text
from rpg.data.readers import READERS, DataError, Rows, read_file, read_hub
from rpg.rewards.extract import last_boxed

HUB = "hub:"
QUESTION = "{question}"
SPLITS = ("train", "test")
GSM8K_MARK = "####"  # the last line of an answer is "#### 72"
TEST_SHARE = 0.1


@dataclass(frozen=True)
class Table:
    """What to read from a table of questions and answers, and what to write.

    Attributes:
        name: of the files, NAME_train.parquet and NAME_test.parquet, and their data_source where none is given.
        question, answer: columns.
        keep: columns that go to extra_info, where a reward function reads them.
        data_source: decides which rule scores a row, where no reward function of the user's does.
        template: text with {question}; the paper's where it is None.
        answer_rule: takes the final answer out of a worked solution: "" (as it stands), "gsm8k" or "boxed".
        hub: where the Hugging Face hub has the set.
    """

    name: str
    question: str
    answer: str
    keep: tuple[str, ...] = ()
    data_source: str = ""
    template: str | None = None
    answer_rule: str = ""
    hub: str = ""


TABLES = {
    "gsm8k": Table("gsm8k", "question", "answer", answer_rule="gsm8k", hub="hub:openai/gsm8k:main"),
    "math": Table(
        "math",
        "problem",
        "solution",
        answer_rule="boxed",
        data_source="MATH",
        hub="hub:DigitalLearningGmbH/MATH-lighteval",
    ),
}


@dataclass
class Built:
    """The files of one build: rows by path, and what was left out."""

    written: dict[Path, int] = field(default_factory=dict)
    left_out: LeftOut = field(default_factory=LeftOut)

    def lines(self) -> Iterator[str]:
        """Yield the report as text."""
        yield from (f"{path}: {rows} rows" for path, rows in self.written.items())
        yield from self.left_out.lines()


@dataclass(frozen=True)
class Row:
    """One usable row of the table."""

    problem: Problem
    kept: dict[str, Any]


def build_own(
    table: Table,
    origin: str,
    out: Path,
    *,
    test_rows: int | None = None,
    test_share: float | None = None,
    seed: int = 0,
    exclude: Collection[bytes] = (),
) -> Built:
    """Write NAME_train.parquet and NAME_test.parquet in `out`, both or neither.

    origin: a file, a folder with files train* and test*, or hub:NAME[:CONFIG]. One without a test split is split by
    `seed`: `test_rows` questions, or the share `test_share` (TEST_SHARE if neither is given).

    Each question is written once; test questions never go to the training file. Memory: all usable rows.
    Raises DataError for columns that do not exist, a split that cannot be made, or a table without a usable row.
    """
    check_template(table.template)
    built = Built()
    seen: dict[bytes, str] = dict.fromkeys(exclude, EXCLUDED)
    parts = splits_of(origin)
    has_test = "test" in parts
    if has_test and (test_rows is not None or test_share is not None):
        option = f"--test-rows {test_rows}" if test_rows is not None else f"--test-share {test_share}"
        raise DataError(f"{option}: {origin} has a test split of its own; leave the option out")
    usable: dict[str, list[Row]] = {}
    for split in ("test", "train"):  # questions of the test split are then left out of the training split
        if split in parts:
            usable[split] = list(usable_rows(table, parts[split], split, seen, built))
    if not has_test:
        usable = split_rows(usable["train"], test_rows, test_share, seed)
    if not usable.get("train"):
        reasons = "; ".join(f"{count} {reason}" for reason, count in built.left_out.counts.items()) or "it has no rows"
        raise DataError(f"--from {origin}: no row to train on ({reasons}); check --question and --answer")
    paths = {split: out / f"{table.name}_{split}.parquet" for split in SPLITS}
    if not usable.get("test") and paths["test"].exists():
        raise DataError(f"{paths['test']}: would stay beside a training file that may have its questions; remove it")
    schema = schema_with(table.keep, [row for rows in usable.values() for row in rows])
    files = {
        paths[split]: [written_row(row, split, table.template) for row in usable[split]]
        for split in SPLITS
        if usable.get(split)
    }
    built.written = write_together(files, schema)
    return built


def check_template(template: str | None) -> None:
    """Raise DataError where the template does not ask the question exactly once."""
    if template is not None and template.count(QUESTION) != 1:
        raise DataError(f"--template: has {QUESTION} {template.count(QUESTION)} times; write it once")


def splits_of(origin: str) -> dict[str, Rows]:
    """The rows of each split of a file, a folder or a set on the hub; all are "train" where there is no test split."""
    if origin.startswith(HUB):
        return hub_splits(origin)
    path = Path(origin).expanduser()
    if not path.is_dir():
        return {"train": read_file(path)}
    files = sorted(file for file in path.rglob("*") if file.suffix.lower() in READERS and file.is_file())
    named = {split: [file for file in files if file.name.startswith(split)] for split in SPLITS}
    if not named["train"]:
        raise DataError(f"--from {origin}: no file train*{{{','.join(READERS)}}} in this folder; name a file")
    return {split: chain.from_iterable(map(read_file, found)) for split, found in named.items() if found}


def hub_splits(origin: str) -> dict[str, Rows]:
    """The rows of the splits train and test of hub:NAME[:CONFIG]."""
    import datasets

    repository, _, config = origin.removeprefix(HUB).partition(":")
    remedy = "check the network and the name, or download it and give --from FILE"
    try:
        has = datasets.get_dataset_split_names(repository, config or None)
    except Exception as error:  # the hub's client, aiohttp and datasets have many
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(f"--from {origin}: not readable from the hub ({reason}); {remedy}") from error
    if "train" not in has:
        raise DataError(f"--from {origin}: has the splits {', '.join(has)}, not train; download one, give --from FILE")
    return {split: read_hub(repository, repository, config or None, split) for split in SPLITS if split in has}


def usable_rows(table: Table, rows: Rows, split: str, seen: dict[bytes, str], built: Built) -> Iterator[Row]:
    """Yield each new question with its answer; count in `built` why other rows go.

    seen: the answer to each question so far, EXCLUDED for a question that is left out; extended here.
    """
    columns = [("--question", table.question), ("--answer", table.answer), *(("--keep", name) for name in table.keep)]
    for place, row in rows:
        for option, column in columns:
            require_column(option, column, row, place)
        question, answer = row[table.question], answer_text(row[table.answer], place)
        truth = final_answer(answer, table.answer_rule)
        if not isinstance(question, str) or not question.strip():
            built.left_out.add("empty question", place)
        elif not truth:
            built.left_out.add("no final answer in the solution" if answer else "empty answer", place)
        elif (earlier := seen.get(key := digest(question))) is None:
            seen[key] = truth
            problem = Problem(table.data_source or table.name, question.strip(), truth, split)
            yield Row(problem, {name: row[name] for name in table.keep})
        elif earlier == EXCLUDED:
            built.left_out.add(EXCLUDED, place)
        else:
            built.left_out.add(
                "repeats an earlier question" + ("" if earlier == truth else " with another answer"), place
            )


def require_column(option: str, column: str, row: dict[str, Any], place: str) -> None:
    """Raise DataError, naming the nearest column, where the row does not have `column`."""
    if column in row:
        return
    near = get_close_matches(column.lower(), names := {str(name).lower(): name for name in row}, n=1, cutoff=0.5)
    hint = f"did you mean {names[near[0]]!r}? " if near else ""
    raise DataError(f"{option} {column}: no such column in {place}; {hint}It has {', '.join(map(repr, row)) or 'none'}")


def final_answer(answer: str, rule: str) -> str:
    """Return the final answer of a worked solution, "" where it has none; `rule` is Table.answer_rule."""
    if rule == "gsm8k":
        return as_integer_text(answer.rpartition(GSM8K_MARK)[2].strip()) if GSM8K_MARK in answer else ""
    if rule == "boxed":
        return (last_boxed(answer) or "").strip()
    return answer


def split_rows(rows: list[Row], test_rows: int | None, test_share: float | None, seed: int) -> dict[str, list[Row]]:
    """Draw a test split. Raises DataError where no training row would be left."""
    share = TEST_SHARE if test_share is None else test_share
    if not 0 <= share < 1:
        raise DataError(f"--test-share {share:g}: must be at least 0 and below 1")
    wanted = round(share * len(rows)) if test_rows is None else test_rows
    if wanted < 0 or (rows and wanted >= len(rows)):
        raise DataError(f"--test-rows {wanted}: must be between 0 and {len(rows) - 1}, as {len(rows)} rows are usable")
    drawn = set(random.Random(seed).sample(range(len(rows)), wanted))
    return {
        "train": [row for number, row in enumerate(rows) if number not in drawn],
        "test": [row for number, row in enumerate(rows) if number in drawn],
    }


def schema_with(keep: tuple[str, ...], rows: list[Row]) -> pa.Schema:
    """The schema of built files with the kept columns in extra_info; raises DataError for a column of mixed types."""
    extra = SCHEMA.field("extra_info")
    fields = list(extra.type)
    for name in keep:
        if extra.type.get_field_index(name) >= 0:
            raise DataError(f"--keep {name}: extra_info has a {name} of its own; rename the column")
        try:
            fields.append(pa.field(name, pa.array([row.kept[name] for row in rows]).type))
        except pa.ArrowException as error:
            raise DataError(f"--keep {name}: its values are of different types ({error}); make them text") from error
    return SCHEMA.set(SCHEMA.get_field_index("extra_info"), pa.field("extra_info", pa.struct(fields)))


def written_row(row: Row, split: str, template: str | None) -> dict[str, Any]:
    """The row of a built file."""
    written = make_row(replace(row.problem, split=split))
    if template is not None:
        written["prompt"][0]["content"] = template.replace(QUESTION, row.problem.text)
    written["extra_info"] |= row.kept
    return written
