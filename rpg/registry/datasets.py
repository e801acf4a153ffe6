"""The data sets: a row each. Spellings, scoring rule, place on the hub, files and benchmark follow from it.

The release's README, its released files and verl disagree on the spellings of data_source (E9 in docs/mathematics.md):
those of published files are listed, without regard to case, - and _. RULE/NAME is the set NAME, scored as RULE is.
"""

from dataclasses import dataclass
from typing import Literal

# data_source reasoning_gym/TASK: a task of that library, whose rule scores it
GYM = "reasoning_gym"


@dataclass(frozen=True)
class DataSet:
    """One problem set.

    Attributes:
        name: of the set, and of its parquet files.
        spellings: values of data_source in published files, besides that of a build.
        answers: the rule: "integer", "sum" (an integer, for which no expression counts) or "expression".
        largest: the largest answer of a set whose integers begin at 0; None: any integer.
        benchmark: name in tables, the paper's where it has one; "" if no table shows it.
        repository, hub_split, config: place on the Hugging Face hub; "": the problems are generated.
        problems: how many the publisher counts.
        written: the data_source that a build writes; default: the name.
        split: role of its rows; "both": a set with a training and a test split, a file each.
        repeat: copies of each problem, one response each: 32, for Mean@32, in the sets that 7b and 4b scripts validate.
        problem_columns, answer_columns: names of the column; the first present one is read.
        solution: of a set whose answer's column has a worked solution: where the answer is, behind GSM8K's mark or in
            the last box.
    """

    name: str
    spellings: str
    answers: Literal["integer", "sum", "expression"]
    largest: int | None = None
    benchmark: str = ""
    repository: str = ""
    hub_split: str = "train"
    config: str | None = None
    problems: str = ""
    written: str = ""
    split: Literal["train", "test", "both"] = "test"
    repeat: int = 1
    problem_columns: tuple[str, ...] = ("problem", "Problem", "question")
    answer_columns: tuple[str, ...] = ("answer", "Answer")
    solution: Literal["", "gsm8k", "boxed"] = ""

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


DATASETS = (  # benchmarks in the order of tables, the paper's first
    DataSet(
        "dapo-math-17k-eng",
        "math_dapo_reasoning DAPO-Math-17k BytedTsinghua-SIA/DAPO-Math-17k open-r1/DAPO-Math-17k-Processed",
        "integer",
        repository="BytedTsinghua-SIA/DAPO-Math-17k",
        problems="about 14,000",
        written="math-dapo",
        split="train",
        answer_columns=("answer", "solution"),
    ),
    DataSet(
        "aime24",
        "aime2024 math-ai/aime24 HuggingFaceH4/aime_2024 Maxwell-Jia/AIME_2024 BytedTsinghua-SIA/AIME-2024",
        "integer",
        largest=999,
        benchmark="AIME24",
        repository="HuggingFaceH4/aime_2024",
        problems="30",
        repeat=32,
    ),
    DataSet(
        "aime25",
        "aime2025 math-ai/aime25 opencompass/AIME2025 yentinglin/aime_2025",
        "integer",
        largest=999,
        benchmark="AIME25",
        repository="math-ai/aime25",
        hub_split="test",
        problems="30",
        repeat=32,
    ),
    DataSet("aime", "", "integer", largest=999),  # of no stated year
    DataSet(
        "amc23",
        "amc amc2023 math-ai/amc23 AI-MO/aimo-validation-amc",
        "integer",
        benchmark="AMC23",
        repository="math-ai/amc23",
        hub_split="test",
        problems="40",
        repeat=32,
    ),
    DataSet(
        "minerva-math",
        "minerva math-ai/minervamath svc-huggingface/minerva-math",
        "expression",
        benchmark="Minerva-Math",
        repository="math-ai/minervamath",
        hub_split="test",
        problems="272",
    ),
    DataSet(
        "olympiadbench",
        "olympiad math-ai/olympiadbench Hothan/OlympiadBench",
        "expression",
        benchmark="OlympiadBench",
        repository="Hothan/OlympiadBench",
        config="OE_TO_maths_en_COMP",
        problems="674",
        answer_columns=("final_answer", "answer"),
    ),
    DataSet(
        "math-500",
        "math-ai/math500 HuggingFaceH4/MATH-500",
        "expression",
        benchmark="MATH-500",
        repository="HuggingFaceH4/MATH-500",
        hub_split="test",
        problems="500",
    ),
    DataSet(
        "math",
        "lighteval/MATH DigitalLearningGmbH/MATH-lighteval",
        "expression",
        benchmark="MATH",
        repository="DigitalLearningGmbH/MATH-lighteval",
        problems="7,500 and 5,000",
        written="MATH",
        split="both",
        problem_columns=("problem",),
        answer_columns=("solution",),
        solution="boxed",
    ),
    DataSet(
        "gsm8k",
        "openai/gsm8k",
        "integer",
        benchmark="GSM8K",
        repository="openai/gsm8k",
        config="main",
        problems="7,473 and 1,319",
        split="both",
        problem_columns=("question",),
        solution="gsm8k",
    ),
    DataSet("toy", "", "sum", benchmark="toy sums", written="toy_sum", split="both", problems="2,048 and 256"),
    DataSet("small_sums", "", "sum", split="both", problems="383 and 57"),
)
BY_NAME = {row.name: row for row in DATASETS}
OF_SPELLING = {spelling: row for row in DATASETS for spelling in (row.data_source, *row.spellings.split())}
BENCHMARKS = {row.benchmark: row for row in DATASETS if row.benchmark}
PUBLISHED = {row.name: row for row in DATASETS if row.repository and row.split != "both"}  # one file each
WITH_SPLITS = {row.name: row for row in DATASETS if row.repository and row.split == "both"}


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


def validation_files(benchmarks: list[str]) -> list[str]:
    """Return the files of the benchmarks on which the 7b and 4b scripts do not validate."""
    rows = (BENCHMARKS[name] for name in benchmarks)
    return [file for row in rows if row.repeat == 1 for file in row.files]
