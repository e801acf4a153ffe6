"""Reads rows of a problem set one at a time, from parquet, JSON, JSONL, CSV or the hub.

JSON and CSV are read by Python: pandas fills a short line of a table without a word, takes a long first line's first
value for an index and renames a repeated column, and pyarrow rejects mixed types.
"""

import contextlib
import csv
import json
from codecs import BOM_UTF8
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rpg.diagnostics import UserError

BATCH_ROWS = 1024
csv.field_size_limit(1 << 30)  # characters; Python's own limit is 131,072
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
REMEDY = "correct it; a file is an array of objects, or has one object per line"
Rows = Iterator[tuple[str, dict[str, Any]]]


class DataError(UserError):
    """Input that cannot be used; the message names the file, the place, the value and the remedy."""


def read_file(path: str | Path) -> Rows:
    """Return (place, row) for every row of a local file; `place` is file and row, for messages."""
    path = Path(path)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        remedy = f"give a {', '.join(READERS)} file; save another table as .csv with commas"
        raise DataError(f"{path}: the name ends in {path.suffix!r}; {remedy}")
    if not path.is_file():
        raise DataError(f"{path}: no such file; check the path")
    return reader(path)


def _read_parquet(path: Path) -> Rows:
    try:
        with pq.ParquetFile(path) as parquet:
            require_distinct(path, parquet.schema_arrow.names)
            batches = parquet.iter_batches(batch_size=BATCH_ROWS)
            rows = (row for batch in batches for row in _as_written(batch).to_pylist())
            yield from ((f"{path}, row {number}", row) for number, row in enumerate(rows))
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: has text that is not UTF-8 (from {error.object[:20]!r}); build it again") from error
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path}: not readable as parquet ({reason}); build or download it again") from error


def _as_written(batch: pa.RecordBatch) -> pa.RecordBatch:
    """Return the batch with 0.1 for the float32 that is nearest to it, whose value is 0.10000000149."""
    for place, field in enumerate(batch.schema):
        if pa.types.is_float32(field.type):
            exact = batch.column(place).to_pylist()
            written = [x if x is None or x.is_integer() else float(str(np.float32(x))) for x in exact]
            batch = batch.set_column(place, field.name, pa.array(written, pa.float64()))
    return batch


def _read_csv(path: Path) -> Rows:
    """Read a table with column names in the first line; values stay text."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        try:
            header = file.readline()
            for sign in filter(header.__contains__, SEPARATORS if "," not in header else ""):
                what = f"its columns are separated by {SEPARATORS[sign]}, not by commas"
                raise DataError(f"{path}, line 1: {what}; save it with commas, or as JSON lines (.jsonl)")
            file.seek(0)
            require_distinct(path, reader.fieldnames or [])
            for row in reader:
                if None in row or None in row.values():
                    raise DataError(f"{path}, line {reader.line_num}: not as many values as columns; quote commas")
                yield f"{path}, line {reader.line_num}", row
        except UnicodeDecodeError:
            read_text(path)  # names the line
        except csv.Error as error:
            raise DataError(f"{path}, line {reader.reader.line_num}: not CSV ({error}); correct it") from error


def require_distinct(path: Path, names: Sequence[str]) -> None:
    """Raise DataError for a duplicate column: a row read by name would have only the last one."""
    for name, count in Counter(names).items():
        if count > 1:
            raise DataError(f"{path}: has the column {name!r} {count} times; keep one of them")


def _read_json(path: Path) -> Rows:
    """Read an array or one object per line, as in many published .json files."""
    with path.open("rb") as file:
        begins = file.read(64)
        is_array = begins.removeprefix(BOM_UTF8).lstrip().startswith(b"[")
        file.seek(len(BOM_UTF8) if begins.startswith(BOM_UTF8) else 0)
        if is_array:
            rows = (
                (f"{path}, element {number}", row)
                for number, row in enumerate(parse_json(file.read(), str(path), REMEDY))
            )
        else:
            places = ((f"{path}, line {number}", line) for number, line in enumerate(file, start=1) if line.strip())
            rows = ((place, parse_json(line, place, REMEDY)) for place, line in places)
        for place, row in rows:
            if not isinstance(row, dict):
                raise DataError(f"{place}: {row!r:.80} is no object; each row is {{column: value}}")
            yield place, row


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return the object of these members. Raises ValueError for a repeated name, of which JSON would take the last."""
    if len(members := dict(pairs)) < len(pairs):
        name = next(name for name, count in Counter(name for name, _ in pairs).items() if count > 1)
        raise ValueError(f"{name!r} is there twice")
    return members


def parse_json(text: bytes, place: str, remedy: str = "correct or remove the line") -> Any:
    """Return the JSON value of a text. Raises DataError, with this place, for anything that UTF-8 cannot hold."""
    try:
        value = json.loads(text.removeprefix(BOM_UTF8).decode(), object_pairs_hook=_distinct)
        if b"\\ud" in text.lower():
            json.dumps(value, ensure_ascii=False).encode()
        return value
    except UnicodeDecodeError as error:
        raise _not_utf8(place, text, error) from error
    except (ValueError, RecursionError) as error:  # also half a surrogate pair, and a number of thousands of digits
        raise DataError(f"{place}: not readable as JSON ({error}); {remedy}") from error


def read_text(path: Path) -> str:
    """Return the text of a UTF-8 file. Raises DataError, with the line, for another encoding."""
    text = path.read_bytes().removeprefix(BOM_UTF8)
    try:
        return text.decode().replace("\r\n", "\n")
    except UnicodeDecodeError as error:
        raise _not_utf8(str(path), text, error) from error


def _not_utf8(place: str, text: bytes, error: UnicodeDecodeError) -> DataError:
    """Return the error of a text that is not UTF-8, with the line if it has several, and the conversion."""
    number = text.count(b"\n", 0, error.start) + 1
    line = f", line {number}" if b"\n" in text.rstrip(b"\n") else ""
    remedy = "save it as UTF-8: iconv -f LATIN1 -t UTF-8 FILE > NEW (-f UTF-16 for a file of that kind)"
    return DataError(f"{place}{line}: byte 0x{text[error.start]:02x} is not UTF-8; {remedy}")


READERS = {".parquet": _read_parquet, ".jsonl": _read_json, ".json": _read_json, ".csv": _read_csv}


def read_hub(repository: str, config: str | None, split: str) -> Rows:
    """Stream the rows of a split from the Hugging Face hub.

    Raises DataError, naming the repository and an alternative without the hub, if it cannot be read.
    """
    import datasets

    where = f"{repository}{f' ({config})' if config else ''}, split {split}"
    with _hub_errors(where):
        rows = datasets.load_dataset(repository, config, split=split, streaming=True)
        yield from ((f"{where}, row {number}", row) for number, row in enumerate(rows))


def hub_splits(repository: str, config: str | None) -> list[str]:
    """Return the names of the splits of a set on the hub; raises DataError as `read_hub`."""
    import datasets

    with _hub_errors(repository):
        return datasets.get_dataset_split_names(repository, config)


@contextlib.contextmanager
def _hub_errors(where: str) -> Iterator[None]:
    try:
        yield
    except Exception as error:  # the hub's client, aiohttp and datasets raise many types
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(
            f"{where}: not readable from the hub ({reason}); check the name, the network and HF_ENDPOINT, or download "
            "the set elsewhere and give --from FILE"
        ) from error
