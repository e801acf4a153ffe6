"""Reads rows of a problem set with the library `datasets`, as verl reads a run's files."""

import logging
import tempfile
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from rpg.diagnostics import UserError

BATCH_ROWS = 1024
FORMATS = {".parquet": "parquet", ".jsonl": "json", ".json": "json", ".csv": "csv", ".tsv": "csv"}
SEPARATORS = (",", ";", "\t", "|")
INDEX = "__index_level_0__"  # pandas' name for the first value of lines that have more values than columns
TEXTS = dict.fromkeys(range(1000), str)  # the type of the first 1000 columns of a CSV: 007 is no 7
HUB = "hub:"
NOT_UTF8 = "save it as UTF-8: iconv -f LATIN1 -t UTF-8 FILE > NEW (-f UTF-16 for a file of that kind)"
Rows = Iterator[tuple[str, dict[str, Any]]]


class DataError(UserError):
    """Input that cannot be used; the message names the file, the place, the value and the remedy."""


def read(origin: str) -> dict[str, Rows]:
    """Return the rows by split of hub:NAME[:CONFIG], of a file ("train"), or of a folder.

    A folder is one of save_to_disk, or has files whose names tell the split as on the hub: train-00000-of-00002.jsonl.
    """
    import datasets
    from datasets.data_files import DataFilesDict, get_data_patterns

    if origin.startswith(HUB):
        name, _, config = origin.removeprefix(HUB).partition(":")
        return {str(split): _rows(origin, rows) for split, rows in _load(origin, name, config or None).items()}
    path = Path(origin).expanduser()
    if not path.is_dir():
        return {"train": read_file(path)}
    if (path / "dataset_dict.json").is_file() or (path / "state.json").is_file():
        try:
            held = datasets.load_from_disk(str(path))
        except Exception as error:
            raise _unreadable(path, error) from error
        splits = held if isinstance(held, dict) else {"train": held}
        return {str(split): _rows(path, rows) for split, rows in splits.items()}
    try:
        parts = DataFilesDict.from_patterns(get_data_patterns(str(path)), base_path=str(path))
    except FileNotFoundError:
        parts = {}
    named = {str(split): [name for name in names if _format(Path(name))] for split, names in parts.items()}
    if not any(named.values()):
        raise DataError(f"{path}: no file {', '.join(FORMATS)} in this folder; name a file")
    return {split: chain.from_iterable(map(read_file, names)) for split, names in named.items() if names}


def read_file(path: str | Path) -> Rows:
    """Return (place, row) for every row of a local file; `place` is file and row, for messages."""
    path = Path(path)
    if not path.is_file():
        raise DataError(f"{path}: {'is a folder; name a file' if path.is_dir() else 'no such file; check the path'}")
    kind = _format(path)
    if not kind:
        remedy = f"give a {', '.join(FORMATS)} file (.gz too); save another table as .csv"
        raise DataError(f"{path}: the name ends in {path.suffix!r}; {remedy}")
    if not path.stat().st_size:
        raise DataError(f"{path}: has no rows; give another file")
    if kind == "parquet":
        return _rows(path, _load(path, kind, data_files=str(path), batch_size=BATCH_ROWS)["train"])
    return _csv(path) if kind == "csv" else _json(path)


def _format(path: Path) -> str | None:
    return FORMATS.get(Path(path.name.removesuffix(".gz")).suffix.lower())


def _csv(path: Path) -> Rows:
    """Read a table with column names in the first line; values stay text."""
    import fsspec

    with fsspec.open(str(path), "rt", encoding="utf-8", errors="replace", compression="infer") as file:
        separator = max(SEPARATORS, key=next(iter(file), "").count)
    options = {"sep": separator, "encoding": "utf-8-sig", "keep_default_na": False, "converters": TEXTS}
    for place, row in _rows(path, _load(path, "csv", data_files=str(path), **options)["train"]):
        if INDEX in row:
            raise DataError(f"{place}: more values than columns; quote values that contain {separator!r}")
        yield place, row


def _json(path: Path) -> Rows:
    """Read objects, one a line, in an array, or in the array of one object: {"data": [...]}."""
    rows = _rows(path, _load(path, "json", data_files=str(path))["train"])
    begin = list(islice(rows, 2))
    if len(begin) == 1 and (values := begin[0][1]):
        for name, value in values.items():
            if isinstance(value, list) and value and isinstance(value[0], dict):
                return _rows(path, _load(path, "json", data_files=str(path), field=name)["train"])
        if all(isinstance(value, dict) for value in values.values()):
            remedy = "write one object a line: table.to_json(FILE.jsonl, orient='records', lines=True)"
            raise DataError(f"{path}: has columns of rows, as pandas writes by default; {remedy}")
    return chain(begin, rows)


def _load(origin: str | Path, kind: str, *names: Any, **options: Any) -> Any:
    import datasets

    logging.getLogger("datasets").setLevel(logging.CRITICAL)  # it also logs what it raises
    try:
        with tempfile.TemporaryDirectory() as locks:  # local files need no cache, and a home may be read-only
            cache = {"cache_dir": locks} if "data_files" in options else {}
            return datasets.load_dataset(kind, *names, streaming=True, **cache, **options)
    except Exception as error:  # datasets, pandas, pyarrow and the hub's client raise many types
        raise _unreadable(origin, error) from error


def _rows(origin: str | Path, stream: Any) -> Rows:
    """Yield the rows of a data set of the library."""
    number = 0
    try:
        if "Json(" in str(stream.features):  # values of several types, which arrow batches hold as JSON text
            rows = iter(stream)
        else:  # ten times as fast
            batches = stream.with_format("arrow").iter(BATCH_ROWS)
            rows = chain.from_iterable(_as_written(batch).to_pylist() for batch in batches)
        for number, row in enumerate(rows):
            yield f"{origin}, row {number}", row
    except Exception as error:
        raise _unreadable(f"{origin}, after row {number}" if number else origin, error) from error


def _as_written(batch: pa.Table) -> pa.Table:
    """Return the batch with 0.1 for the float32 that is nearest to it, whose value is 0.10000000149."""
    for place, field in enumerate(batch.schema):
        if pa.types.is_float32(field.type):
            exact = batch.column(place).to_pylist()
            written = [x if x is None or x.is_integer() else float(str(np.float32(x))) for x in exact]
            batch = batch.set_column(place, field.name, pa.array(written, pa.float64()))
    return batch


def _unreadable(origin: str | Path, error: Exception) -> DataError:
    """Return the library's reason, and what to do."""
    reason = (str(error).splitlines() or [type(error).__name__])[0].partition(". Available")[0][:200]
    remedy = "correct it, or write it again"
    if isinstance(error, UnicodeDecodeError):
        remedy = NOT_UTF8
    elif str(origin).startswith(HUB):
        remedy = "check the name, the network and HF_ENDPOINT, or download the set elsewhere and give --from FILE"
    elif "eature type" in reason:  # in the file's metadata, of another version of the library
        plain = f"q.write_table(q.read_table({str(origin)!r}).replace_schema_metadata(), 'NEW.parquet')"
        remedy = f'write it without its metadata: python -c "import pyarrow.parquet as q; {plain}"'
    return DataError(f"{origin}: `datasets`, with which verl reads, cannot read it ({reason}); {remedy}")
