"""Reads rows of a problem set with the library `datasets`, as verl reads a run's files."""

import csv
import json
import logging
import sys
from collections import deque
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from rpg.diagnostics import UserError

FORMATS = {".parquet": "parquet", ".jsonl": "json", ".ndjson": "json", ".json": "json", ".csv": "csv", ".tsv": "csv"}
METADATA = ("dataset_info.json", "dataset_infos.json")  # of a repository of the hub, beside its tables
SEPARATORS = (",", ";", "\t", "|")
INDEX = "__index_level_0__"  # pandas' name for the first value of lines that have more values than columns
TEXTS = dict.fromkeys(range(1000), str)  # the type of the first 1000 columns of a CSV: 007 is no 7
HUB = "hub:"
Rows = Iterator[tuple[str, dict[str, Any]]]


def read(origin: str | Path) -> dict[str, Rows]:
    """Return the rows by split of hub:NAME[:CONFIG], of a file ("train"), or of a folder.

    A folder is one of save_to_disk, or has files whose names tell the split as on the hub: train-00000-of-00002.jsonl.
    A row comes with its place, for messages: file and row. Raises UserError for what is not there or has another form.
    """
    path, options = Path(origin).expanduser(), dict[str, Any]()
    if str(origin).startswith(HUB):
        name, _, config = str(origin).removeprefix(HUB).partition(":")
        splits = _load(origin, name, config or None)
    elif (path / "dataset_dict.json").is_file() or (path / "state.json").is_file():
        splits = _load(path)
    else:
        files = [file for file in [path, *sorted(path.rglob("*"))] if file.is_file() and _format(file)]
        if not files:
            remedy = f"give a {', '.join(FORMATS)} file (.gz too), or a folder of them; save another table as .csv"
            raise UserError(f"{path}: no table; {remedy}" if path.exists() else f"{path}: no such file")
        if {*"*?["} & {*str(path)}:
            raise UserError(f"{path}: rename it; `datasets`, with which verl reads, takes *, ? and [ as a pattern")
        kind, where = _format(files[0]), "data_files" if path.is_file() else "data_dir"
        options = _csv_options(files) if kind == "csv" else {}
        splits = _load(origin, kind, **{where: str(path)}, **options)
        if (count := sum(rows.num_shards for rows in splits.values())) < len(files):
            print(f"note: {origin}: {count} of {len(files)} files are read, whose names tell a split (train, test)")
        if len(folders := {file.parent for file in files if file.parent.name not in map(str, splits)}) > 1:
            print(f"note: {origin}: the tables of {len(folders)} folders are read as one")
        if (kind, where) == ("json", "data_files"):
            return {"train": _unnested(path, _rows(path, splits["train"]))}
    return {str(split): _rows(origin, rows, options.get("sep")) for split, rows in splits.items()}


def read_file(path: str | Path) -> Rows:
    """Return the rows of a local file, as `read`."""
    if Path(path).is_dir():
        raise UserError(f"{path}: is a folder; `rpg data build --from {path}` makes a file of it")
    return read(path)["train"]


def _format(path: Path) -> str | None:
    return None if path.name in METADATA else FORMATS.get(Path(path.name.removesuffix(".gz")).suffix.lower())


def _csv_options(paths: list[Path]) -> dict[str, Any]:
    """Return the library's options for CSV files: column names are in the first line, and values stay text.

    Raises UserError for a quotation mark that would make the library take the next rows into a value.
    """
    import fsspec

    csv.field_size_limit(sys.maxsize)
    files = fsspec.open_files([*map(str, paths)], "rt", encoding="utf-8-sig", errors="replace", compression="infer")
    with files[0] as file:
        separator = max(SEPARATORS, key=next(iter(file), "").count)
    for path, one in zip(paths, files, strict=True):
        with one as file:
            reader = csv.reader(file, delimiter=separator, strict=True)
            try:
                deque(reader, maxlen=0)
            except csv.Error as error:
                remedy = 'a value that has a " is written in quotation marks, with "" for each'
                raise UserError(f"{path}, line {reader.line_num}: {error}; {remedy}") from None
    return {"sep": separator, "encoding": "utf-8-sig", "keep_default_na": False, "converters": TEXTS}


def _unnested(path: Path, rows: Rows) -> Rows:
    """Return the rows of {"data": [...]}, else the rows themselves."""
    begin = list(islice(rows, 2))
    if len(begin) == 1:
        lists = [(name, value) for name, value in begin[0][1].items() if isinstance(value, list)]
        tables = [name for name, value in lists if value and isinstance(value[0], dict) and "role" not in value[0]]
        if len(tables) > 1:
            raise UserError(f"{path}: has {' and '.join(tables)}; write a file of each, train.jsonl and test.jsonl")
        if tables:
            return _rows(path, _load(path, "json", data_files=str(path), field=tables[0])["train"])
    return chain(begin, rows)


def _load(origin: str | Path, *names: Any, **options: Any) -> Any:
    """Return the splits of what load_dataset takes, or, without it, of the folder of save_to_disk."""
    import datasets

    logging.getLogger("datasets").setLevel(logging.CRITICAL)  # it also logs what it raises
    try:
        if names:
            return datasets.load_dataset(*names, streaming=True, **options)
        held = datasets.load_from_disk(str(origin))
        return held if isinstance(held, dict) else {"train": held}
    except Exception as error:  # datasets, pandas, pyarrow and the hub's client raise many types
        raise _unreadable(origin, error) from error


def _rows(origin: str | Path, stream: Any, separator: str | None = None) -> Rows:
    """Yield the rows of a data set of the library; separator: of a CSV."""
    place, path = origin, Path(origin).expanduser()
    try:
        if _format(path) == "parquet" and path.is_file():
            batches = pq.ParquetFile(path).iter_batches(1024)
        else:  # for a parquet file this may abort the process at its exit (huggingface/datasets#7566)
            batches = stream.with_format("arrow").iter(batch_size=1024)  # ten times as fast as without
        rows = chain.from_iterable(batch.to_pylist() for batch in batches)
        if "Json(" in str(stream.features):  # values of several types, which arrow batches hold as JSON text
            rows = map(_as_written, stream, rows)
        for number, row in enumerate(rows):
            place = f"{origin}, row {number}"
            if separator and INDEX in row:
                raise ValueError("more values than columns; quote values that contain the separator")
            yield place, row
    except Exception as error:
        raise _unreadable(place, error) from error


def _as_written(row: dict[str, Any], stored: dict[str, Any]) -> dict[str, Any]:
    """Return a row with texts that the library took for JSON numbers: 007 and 1.50."""
    numbers = {name for name, value in row.items() if isinstance(value, int | float) and isinstance(stored[name], str)}
    return row | {name: stored[name] for name in numbers if json.dumps(row[name]) != stored[name]}


def _unreadable(place: str | Path, error: Exception) -> UserError:
    """Return the library's reason with the last place that was read."""
    reason = first_line(error).partition(". Available")[0][:200]
    what = f"{place}: `datasets`, with which verl reads, cannot read it or a later row ({reason})"
    return UserError(f"{what}; correct it, or write it again as UTF-8; of a set on the hub check name and network")


def first_line(error: Exception) -> str:
    """Return the first line of an exception's message, or its type."""
    return (str(error).splitlines() or [type(error).__name__])[0]
