"""The data sets of datasets.yaml: spellings, scoring rule, place on the hub, files and benchmark follow from a row.

The release's README, its released files and verl disagree on the spellings of data_source (E9 in docs/mathematics.md):
those of published files are listed, without regard to case, - and _. RULE/NAME is the set NAME, scored as RULE is.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import yaml

# data_source reasoning_gym/TASK: a task of that library, whose rule scores it
GYM = "reasoning_gym"


@dataclass(frozen=True)
class DataSet:
    """One problem set.

    Attributes:
        name: of the set, and of its parquet files.
        answers: the rule: "integer", "sum" (an integer, for which no expression counts) or "expression".
        spellings: values of data_source in published files, besides that of a build.
        benchmark: name in tables, the paper's where it has one; "" if no table shows it.
        repository, hub_split, config: place on the Hugging Face hub; "": the problems are generated.
        problems: how many the publisher counts.
        written: the data_source that a build writes; default: the name.
        split: role of its rows; "both": a set with a training and a test split, a file each.
        repeat: copies of each problem, one response each: 32, for Mean@32, in the sets that 7b and 4b scripts validate.
        question, answer: names of the columns. context: of one whose text comes before the question.
        solution: "boxed" if the answer's column has a worked solution, with the answer in its last box.
    """

    name: str
    answers: Literal["integer", "sum", "expression"]
    spellings: Sequence[str] = ()
    benchmark: str = ""
    repository: str = ""
    hub_split: str = "train"
    config: str | None = None
    problems: str = ""
    written: str = ""
    split: Literal["train", "test", "both"] = "test"
    repeat: int = 1
    question: str = "problem"
    answer: str = "answer"
    context: str = ""
    solution: Literal["", "boxed"] = ""

    @property
    def data_source(self) -> str:
        """The data_source that a build writes."""
        return self.written or self.name

    @property
    def has_integers(self) -> bool:
        """Whether every answer is an integer."""
        return self.answers != "expression"

    @property
    def files(self) -> tuple[str, ...]:
        """The names of its parquet files, the training file first."""
        if self.split == "both":
            return f"{self.name}_train.parquet", f"{self.name}_test.parquet"
        return (f"{self.name}.parquet",)


_FILE = Path(__file__).with_suffix(".yaml")
DATASETS = tuple(DataSet(**row) for row in yaml.load(_FILE.read_bytes(), yaml.CSafeLoader))
BY_NAME = {row.name: row for row in DATASETS}
OF_SPELLING = {spelling: row for row in DATASETS for spelling in (row.data_source, *row.spellings)}
BENCHMARKS = {row.benchmark: row for row in DATASETS if row.benchmark}
PUBLISHED = {row.name: row for row in DATASETS if row.repository}


def _key(spelling: str) -> str:
    return spelling.lower().replace("-", "").replace("_", "")


_OF_KEY = {_key(spelling): row for spelling, row in OF_SPELLING.items()}


def named(data_source: str) -> DataSet | None:
    """Return the data set of which this is a spelling, or None."""
    return _OF_KEY.get(_key(data_source))


def of_source(data_source: str | None) -> DataSet | None:
    """Return the set whose rule scores rows with this data_source: MATH also for MATH/mine, a user's own; or None."""
    rule, _, name = (data_source or "").rpartition("/")
    return (named(rule) if name else None) or named(data_source or "")


def is_gym(data_source: str) -> bool:
    """Return whether rows with this data_source are of a task of reasoning-gym."""
    return data_source.partition("/")[0] == GYM


def benchmark_of(data_source: str) -> str:
    """Return the name of a data_source in tables: its set's benchmark, else the data_source itself."""
    row = named(data_source)
    return row.benchmark or data_source if row else data_source
