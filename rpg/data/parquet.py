"""Writes parquet files with the columns that verl and the launch scripts read."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rpg.data.template import format_prompt
from rpg.diagnostics import UserError
from rpg.files.atomic import write_whole
from rpg.registry.datasets import DataSet

SCHEMA = pa.schema(
    [
        ("data_source", pa.string()),
        ("prompt", pa.list_(pa.struct([("content", pa.string()), ("role", pa.string())]))),
        ("ability", pa.string()),
        ("reward_model", pa.struct([("ground_truth", pa.string()), ("style", pa.string())])),
        ("extra_info", pa.struct([("index", pa.int64()), ("raw_problem", pa.string()), ("split", pa.string())])),
    ]
)


@dataclass(frozen=True)
class Problem:
    """One problem before it is written: text without the template, and the answer as text.

    ground_truth: None if only the reward function's rule tells a right answer, as in some tasks of reasoning-gym.
    columns: further values for extra_info, for reward functions, of the same names in all problems of a build. prompt:
    replaces the text in the template. system: the system message of a chat; it is not written.
    """

    data_source: str
    text: str
    ground_truth: str | None
    split: str
    columns: Mapping[str, Any] = field(default_factory=dict)
    prompt: str = ""
    system: str = ""


def make_row(problem: Problem, index: int = 0, template: str | None = None) -> dict[str, Any]:
    """Return the row of `problem`; `index` is its repeat number, 0..K-1 (E10 in docs/mathematics.md)."""
    return {
        "data_source": problem.data_source,
        "prompt": [{"role": "user", "content": problem.prompt or format_prompt(problem.text, template)}],
        "ability": "MATH",
        "reward_model": {"ground_truth": problem.ground_truth, "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": index, "raw_problem": problem.text, "split": problem.split, **problem.columns},
    }


def write(files: Mapping[Path, Sequence[Problem]], repeat: int = 1, template: str | None = None) -> None:
    """Write the problems of every file, each `repeat` times, with their columns in extra_info.

    The rows of all are complete before the first is written, and each file is whole or absent. Equal problems give
    equal bytes.
    """
    problems = [*chain(*files.values())]
    fields = list(SCHEMA.field("extra_info").type)
    for name in problems[0].columns if problems else ():
        try:
            kind = pa.array([problem.columns[name] for problem in problems]).type
        except pa.ArrowException as error:
            raise UserError(f"--keep {name}: its values have several types ({error}); write them as text") from error
        fields.append(pa.field(name, kind))
    schema = SCHEMA.set(SCHEMA.get_field_index("extra_info"), pa.field("extra_info", pa.struct(fields)))
    tables = {}
    for path, of_file in files.items():
        rows = [make_row(problem, index, template) for problem in of_file for index in range(repeat)]
        tables[path] = pa.Table.from_pylist(rows, schema=schema)
    for path, table in tables.items():
        content = pa.BufferOutputStream()
        pq.write_table(table, content, row_group_size=4096, compression="zstd")
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, content.getvalue().to_pybytes())


def write_set(out: Path, source: DataSet, problems: Sequence[Problem], template: str | None = None) -> list[Path]:
    """Write the files of a set in `out`, all or none; return them. An empty split of two has no file.

    Raises UserError if a file of an earlier build, which may have the same problems, would remain beside a new one.
    """
    files = {}
    for split, name in zip(("train", "test") if source.split == "both" else (source.split,), source.files, strict=True):
        if of_split := [problem for problem in problems if problem.split == split]:
            files[out / name] = of_split
        elif (out / name).exists():
            raise UserError(f"{out / name} is from an earlier build and may repeat these problems; remove it")
    write(files, source.repeat, template)
    return [*files]
