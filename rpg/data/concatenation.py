"""Whether verl can concatenate parquet files: the files of data.train_files, and those of data.val_files.

verl's RLHFDataset loads each file with `datasets` and calls `concatenate_datasets`, which wants equal types: a string
beside a large_string, or text beside numbers, ends the run. Here the same function gets one row of nulls per file, so
that only the files' schemas are read.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path

import pyarrow as pa


@dataclass(frozen=True)
class Misfit:
    """A column, or a field of one, of two files that cannot be concatenated; `reason` instead if it is none of them."""

    earlier: Path
    later: Path
    column: str = ""
    types: tuple[str, str] = ("", "")
    reason: str = ""

    def __str__(self) -> str:
        if not self.column:
            return f"cannot be concatenated with {self.earlier} ({self.reason})"
        mine, theirs = self.types[1], self.types[0]
        return f"column {self.column} is {mine}, and {theirs} in {self.earlier}: verl cannot concatenate the two"


REMEDY = (
    "write both with the same columns and types, such as with one `rpg data build` per set, or cast that column in one "
    "of them"
)


def misfits(schemas: Sequence[tuple[Path, pa.Schema]]) -> list[Misfit]:
    """Return the columns that keep verl from concatenating these files, each with the first two files concerned.

    Imports `datasets` (half a second) only if the schemas differ.
    """
    types = [schema for _, schema in schemas]
    if all(schema.equals(types[0], check_metadata=True) for schema in types) or not (reason := refusal(types)):
        return []
    by_column: dict[str, Misfit] = {}
    for (earlier, first), (later, second) in combinations(schemas, 2):
        for column, both in _differences("", list(first), list(second)):
            by_column.setdefault(column, Misfit(earlier, later, column, both))
    return list(by_column.values()) or [Misfit(schemas[0][0], schemas[-1][0], reason=reason)]


def refusal(schemas: Sequence[pa.Schema]) -> str:
    """Return why `datasets` cannot concatenate files of these schemas, or ""."""
    import datasets

    try:
        rows = [datasets.Dataset(pa.Table.from_pylist([{}], schema=schema)) for schema in schemas]
        datasets.concatenate_datasets(rows)
    except (ValueError, TypeError, AttributeError, NotImplementedError, pa.ArrowException) as error:
        return (str(error).splitlines() or [type(error).__name__])[0]
    return ""


def _differences(above: str, first: list[pa.Field], second: list[pa.Field]) -> Iterator[tuple[str, tuple[str, str]]]:
    """Yield the path and both types of every column, or nested field, that cannot be concatenated."""
    theirs = {field.name: field for field in second}
    for mine in first:
        field = theirs.get(mine.name)
        if field is None or not refusal([pa.schema([mine]), pa.schema([field])]):
            continue
        path = f"{above}{mine.name}"
        inner = []
        if pa.types.is_struct(mine.type) and pa.types.is_struct(field.type):
            inner = list(_differences(f"{path}.", list(mine.type), list(field.type)))
        yield from inner or [(path, (str(mine.type), str(field.type)))]
