"""The data sets: a row each. Spellings, scoring rule, place on the hub, file and benchmark follow from it.

The release's README, its released files and verl disagree on the spellings of data_source (E9 in docs/mathematics.md),
so all spellings in published files of a set are listed.
"""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True)
class DataSet:
    """One problem set.

    Attributes:
        name: of the set, and of its parquet file: NAME.parquet.
        spellings: values of data_source in published files; the set's own name may be one of them.
        answers: "integer" or "expression", by which its rule is chosen; "chain" has a rule of its own.
        benchmark: name in tables, the paper's where it has one; "" if no table shows it.
        repository, hub_split, config: its place on the Hugging Face hub; without one, `rpg data build` has its own way.
        written: the data_source that a build writes; default: the name.
        split: train or test, the role of its rows.
        repeat: copies of each problem, one response each: Mean@32 needs 32.
        answer_columns: names of the answer's column; the first present one is read.
    """

    name: str
    spellings: tuple[str, ...]
    answers: Literal["integer", "expression", "chain"]
    benchmark: str = ""
    repository: str = ""
    hub_split: str = "train"
    config: str | None = None
    written: str = ""
    split: Literal["train", "test"] = "test"
    repeat: int = 1
    answer_columns: tuple[str, ...] = ("answer", "Answer")

    @property
    def data_source(self) -> str:
        """The data_source that a build writes."""
        return self.written or self.name

    @property
    def file(self) -> str:
        """The name of its parquet file."""
        return f"{self.name}.parquet"


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


DATASETS = (  # benchmarks in the order of tables, the paper's first
    DataSet(
        "dapo-math-17k-eng",
        _words("""
            math-dapo math_dapo math_dapo_reasoning dapo-math-17k dapo_math_17k DAPO-Math-17k
            BytedTsinghua-SIA/DAPO-Math-17k open-r1/DAPO-Math-17k-Processed
        """),
        "integer",
        repository="BytedTsinghua-SIA/DAPO-Math-17k",
        written="math-dapo",
        split="train",
        answer_columns=("answer", "solution"),
    ),
    DataSet(
        "aime24",
        _words("""
            aime24 aime_24 aime-24 aime2024 aime_2024 aime-2024 AIME24 AIME2024 AIME_2024 math-ai/aime24
            HuggingFaceH4/aime_2024 Maxwell-Jia/AIME_2024 BytedTsinghua-SIA/AIME-2024
        """),
        "integer",
        benchmark="AIME24",
        repository="HuggingFaceH4/aime_2024",
        repeat=32,
    ),
    DataSet(
        "aime25",
        _words("""
            aime25 aime_25 aime-25 aime2025 aime_2025 aime-2025 AIME25 AIME2025 AIME_2025 math-ai/aime25
            opencompass/AIME2025 yentinglin/aime_2025
        """),
        "integer",
        benchmark="AIME25",
        repository="math-ai/aime25",
        hub_split="test",
        repeat=32,
    ),
    DataSet("aime", ("aime",), "integer"),  # of no stated year
    DataSet(
        "amc23",
        _words("amc amc23 amc_23 amc-23 amc2023 amc_2023 amc-2023 AMC23 AMC2023 math-ai/amc23 "
               "AI-MO/aimo-validation-amc"),
        "integer",
        benchmark="AMC23",
        repository="math-ai/amc23",
        hub_split="test",
        repeat=32,
    ),
    DataSet(
        "minerva-math",
        _words("minerva minerva-math minerva_math minervamath math-ai/minervamath svc-huggingface/minerva-math"),
        "expression",
        benchmark="Minerva-Math",
        repository="math-ai/minervamath",
        hub_split="test",
    ),
    DataSet(
        "olympiadbench",
        _words("olympiadbench olympiad-bench olympiad_bench olympiad OlympiadBench math-ai/olympiadbench "
               "Hothan/OlympiadBench"),
        "expression",
        benchmark="OlympiadBench",
        repository="Hothan/OlympiadBench",
        config="OE_TO_maths_en_COMP",
        answer_columns=("final_answer", "answer"),
    ),
    DataSet(
        "math-500",
        _words("math-500 math_500 math500 MATH-500 MATH500 math-ai/math500 HuggingFaceH4/MATH-500"),
        "expression",
        benchmark="MATH-500",
        repository="HuggingFaceH4/MATH-500",
        hub_split="test",
    ),
    DataSet("math", _words("math MATH lighteval/MATH DigitalLearningGmbH/MATH-lighteval"), "expression", "MATH"),
    DataSet("gsm8k", _words("gsm8k GSM8K openai/gsm8k"), "integer", "GSM8K"),
    DataSet("toy", ("toy_sum",), "integer", "toy sums", written="toy_sum"),
    DataSet("chain", ("chain_sum",), "chain", written="chain_sum"),
)  # fmt: skip
BY_NAME = {row.name: row for row in DATASETS}
OF_SPELLING = {spelling: row for row in DATASETS for spelling in row.spellings}


def rule_of(data_source: str) -> str:
    """Return the spelling whose rule scores a data_source: MATH for MATH/mine, which names a user's own set."""
    rule, slash, name = data_source.rpartition("/")
    return rule if slash and name and rule in OF_SPELLING else data_source


def of_source(data_source: str | None) -> DataSet | None:
    """Return the data set whose rule scores rows with this data_source, or None."""
    return None if data_source is None else OF_SPELLING.get(rule_of(data_source))


def benchmark_of(data_source: str) -> str:
    """Return the name of a data_source in tables: its set's benchmark, else the data_source itself."""
    row = OF_SPELLING.get(data_source)
    return row.benchmark or data_source if row else data_source


BENCHMARKS = tuple(row.benchmark for row in DATASETS if row.benchmark)
