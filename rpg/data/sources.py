"""Where each problem set comes from and how its published rows are laid out."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Source:
    """One problem set: its place on the Hugging Face hub, its columns, and what we write."""

    name: str
    data_source: str
    repo: str
    config: str | None
    hub_split: str
    text_columns: tuple[str, ...]
    answer_columns: tuple[str, ...]
    split: str
    repeat: int  # copies of each problem, one answer each: Mean@32 needs 32
    integer_answers: bool = False
    context_column: str | None = None

    @property
    def file_name(self) -> str:
        """Name of the parquet file, as the launch scripts read it."""
        return f"{self.name}.parquet"


# Columns: the hub's spelling first, then those of other common copies of the same set.
_ALL = (
    Source(
        name="dapo-math-17k-eng",
        data_source="math-dapo",
        repo="BytedTsinghua-SIA/DAPO-Math-17k",
        config=None,
        hub_split="train",
        text_columns=("problem", "question"),
        answer_columns=("answer", "solution"),
        split="train",
        repeat=1,
        integer_answers=True,
    ),
    Source(
        name="aime24",
        data_source="aime24",
        repo="HuggingFaceH4/aime_2024",
        config=None,
        hub_split="train",
        text_columns=("problem", "Problem", "question"),
        answer_columns=("answer", "Answer"),
        split="test",
        repeat=32,
        integer_answers=True,
    ),
    Source(
        name="aime25",
        data_source="aime25",
        repo="math-ai/aime25",
        config=None,
        hub_split="test",
        text_columns=("problem", "question"),
        answer_columns=("answer", "Answer"),
        split="test",
        repeat=32,
        integer_answers=True,
    ),
    Source(
        name="amc23",
        data_source="amc23",
        repo="math-ai/amc23",
        config=None,
        hub_split="test",
        text_columns=("question", "problem"),
        answer_columns=("answer",),
        split="test",
        repeat=32,
        integer_answers=True,
    ),
    Source(
        name="minerva-math",
        data_source="minerva-math",
        repo="math-ai/minervamath",
        config=None,
        hub_split="test",
        text_columns=("question", "problem"),
        answer_columns=("answer",),
        split="test",
        repeat=1,
    ),
    Source(
        name="olympiadbench",
        data_source="olympiadbench",
        repo="Hothan/OlympiadBench",
        config="OE_TO_maths_en_COMP",
        hub_split="train",
        text_columns=("question", "problem"),
        answer_columns=("final_answer", "answer"),
        split="test",
        repeat=1,
        context_column="context",
    ),
    Source(
        name="math-500",
        data_source="math-500",
        repo="HuggingFaceH4/MATH-500",
        config=None,
        hub_split="test",
        text_columns=("problem", "question"),
        answer_columns=("answer",),
        split="test",
        repeat=1,
    ),
)
SOURCES = {source.name: source for source in _ALL}
