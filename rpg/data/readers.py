"""Reads the rows of a problem set, whose values stay as they are written: 007, 1.50 and 2024-05-01 are texts.

`datasets` only says which files of a folder, or of a repository on the hub, are a split.
"""

import csv
import glob
import json
import logging
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import Any

import fsspec
import pyarrow.parquet as pq

from rpg.diagnostics import UserError

SEPARATORS = (",", ";", "\t", "|")
HUB = "hub:"
Rows = Iterator[tuple[str, dict[str, Any]]]


def read(origin: str | Path) -> dict[str, Rows]:
    """Return the rows by split of hub:NAME[:CONFIG], of a file ("train"), or of a folder.

    A folder is one of save_to_disk, or has files whose names tell the split as on the hub: train-00000-of-00002.jsonl.
    A row comes with its place, for messages: file and row. Raises UserError if the origin is missing or not a table.
    """
    path = Path(origin).expanduser().absolute()
    if (path / "dataset_dict.json").is_file() or (path / "state.json").is_file():
        import datasets

        held = datasets.load_from_disk(str(path))
        splits = held if isinstance(held, dict) else {"train": held}
        return {str(split): _placed(path, rows) for split, rows in splits.items()}
    is_file = not path.is_dir() and not str(origin).startswith(HUB)
    tables = {"train": [str(path)]} if is_file else _tables_of(str(origin), path)
    return {split: chain.from_iterable(map(read_file, files)) for split, files in tables.items()}


def _tables_of(origin: str, path: Path) -> dict[str, list[str]]:
    """Return the local files by split of a folder or of hub:NAME[:CONFIG]; print what of a folder is not read."""
    import datasets
    from datasets.data_files import FILES_TO_IGNORE, DataFilesDict, get_data_patterns

    logging.getLogger("datasets").setLevel(logging.CRITICAL)  # it also logs what it raises
    try:
        if origin.startswith(HUB):
            name, _, config = origin.removeprefix(HUB).partition(":")
            files = datasets.load_dataset_builder(name, config or None).config.data_files
        else:
            folder = glob.escape(str(path))
            files = DataFilesDict.from_patterns(get_data_patterns(folder), folder)
        of_kind = {str(split): [*filter(_reader, of_split)] for split, of_split in (files or {}).items()}
        tables: Any = datasets.DownloadManager().download(of_kind)  # their paths here
    except Exception as error:  # datasets, pyarrow and the hub's client raise many types
        raise UserError(f"{origin}: cannot be read ({first_line(error)}); check its name and the network") from error
    if not (used := {*chain(*tables.values())}):
        raise UserError(f"{origin}: no table; give a folder of {', '.join(READERS)} files (.gz too)")
    on_disk = {file for file in path.rglob("*") if READERS.keys() & {*Path(file.name.lower()).suffixes}}
    if left := sorted({str(file) for file in on_disk if file.name not in FILES_TO_IGNORE} - used):
        why = "as their names tell no split (train, test) or another compression than .gz"
        print(f"note: {origin}: {len(left)} files are not read, {why}: {left[0]}")
    if len(folders := {file.parent for file in map(Path, used) if file.parent.name not in tables}) > 1:
        print(f"note: {origin}: the tables of {len(folders)} folders are read as one")
    return tables


def read_file(path: str | Path) -> Rows:
    """Return the rows of a local file, as `read`."""
    path = Path(path).expanduser()
    if path.is_dir():
        raise UserError(f"{path}: is a folder; `rpg data build --from {path}` makes a file of it")
    if not path.exists():
        raise UserError(f"{path}: no such file")
    if not (reader := _reader(path)):
        raise UserError(f"{path}: no table; give a {', '.join(READERS)} file (.gz too); save another table as .csv")
    return _placed(path, reader(path))


def _reader(path: str | Path) -> Callable[[Path], Iterator[Any]] | None:
    """Return the function that reads a file of this name, or None."""
    return READERS.get(Path(str(path).lower().removesuffix(".gz")).suffix)


def _placed(path: Path, rows: Iterable[Any]) -> Rows:
    """Yield the rows with their places."""
    place = str(path)
    try:
        for number, row in enumerate(rows):
            place = f"{path}, row {number}"
            yield place, row
    except Exception as error:
        what = f"{place}: this or the next row cannot be read ({first_line(error)})"
        raise UserError(f"{what}; correct it, or write the file again as UTF-8") from error


def _parquet(path: Path) -> Iterator[Any]:
    file = pq.ParquetFile(path)
    _check_names(file.schema_arrow.names)
    for batch in file.iter_batches(1024):
        yield from batch.to_pylist()


def _csv(path: Path) -> Iterator[dict[str, str]]:
    """Yield the rows of a CSV file, with column names in its first line. Raises ValueError for rows of other sizes."""
    csv.field_size_limit(sys.maxsize)
    with _opened(path) as file:
        first = next(file, "")
        separator = max(SEPARATORS, key=first.count)
        reader = csv.reader(chain([first], file), delimiter=separator, skipinitialspace=True, strict=True)
        try:
            names = next(reader, [])
            _check_names([*filter(None, names)])
            for values in filter(None, reader):
                if len(values) != len(names):
                    raise csv.Error(f"{len(values)} values for {len(names)} columns")
                yield {name: value for name, value in zip(names, values, strict=True) if name}
        except csv.Error as error:
            remedy = 'a value with a separator, line end or " is written in quotation marks, with "" for each "'
            raise ValueError(f"line {reader.line_num}: {error}; {remedy}") from None


def _json(path: Path) -> Iterator[Any]:
    """Yield the objects of a JSON file: of its lines, of its list, or of the list in {"data": [...]}."""
    value_of = partial(json.loads, object_pairs_hook=_row)
    with _opened(path) as file:
        lines = filter(str.strip, file)
        first = next(lines, "[]")
        try:
            rows = chain([value_of(first)], map(value_of, lines))
        except ValueError:  # one value in several lines
            rows = iter([value_of(first + file.read())])
        begin, names = list(islice(rows, 2)), dict[str, None]()
        for row in chain(begin if len(begin) > 1 else _table_in(begin[0]), rows):
            if not isinstance(row, dict):
                raise TypeError(f"{row!r:.60} has no column names")
            names |= dict.fromkeys(row)
            yield {**names, **row}  # what a row lacks is null, as in a table


def _table_in(value: Any) -> list[Any]:
    """Return the rows in a file's only value: a list, the list in {"data": [...]}, or one row."""
    if not isinstance(value, dict):
        return value
    lists = {name: items for name, items in value.items() if isinstance(items, list) and items}
    tables = {name: items for name, items in lists.items() if isinstance(items[0], dict) and "role" not in items[0]}
    if len(tables) > 1:
        raise ValueError(f"has {' and '.join(tables)}; write a file of each, train.jsonl and test.jsonl")
    return next(iter(tables.values()), [value])


def _row(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of a JSON text's names and values. Raises ValueError as `_check_names`."""
    _check_names([name for name, _ in pairs])
    return dict(pairs)


def _check_names(names: list[str]) -> None:
    """Raise ValueError if two columns have the same name: the second would replace the first."""
    if len({*names}) < len(names):
        ((name, count),) = Counter(names).most_common(1)
        raise ValueError(f"{count} columns are named {name!r}; rename one")


def _opened(path: Path) -> Any:
    """Return the opened text of a file, which may be compressed."""
    return fsspec.open(str(path), "rt", encoding="utf-8-sig", newline="", compression="infer")


def first_line(error: Exception) -> str:
    """Return the first line of an exception's message, or its type."""
    return (str(error).splitlines() or [type(error).__name__])[0]


READERS = {".parquet": _parquet, ".jsonl": _json, ".ndjson": _json, ".json": _json, ".csv": _csv, ".tsv": _csv}
