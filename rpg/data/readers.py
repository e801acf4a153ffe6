"""Rows of a problem set, one at a time: from parquet, JSON, JSONL, CSV or the hub.

JSON and CSV are read by Python: a table's reader would turn the answer "025" into 25 and refuse columns of mixed types.
"""

import csv
import json
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

BATCH_ROWS = 1024
Rows = Iterator[tuple[str, dict[str, Any]]]


class DataError(ValueError):
    """Input that cannot be used; the message names the file, the place, the value and the remedy."""


def read_file(path: str | Path) -> Rows:
    """Yield (place, row) for every row of a local file; `place` names file and row for messages."""
    path = Path(path)
    reader = READERS.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"{path}: the name ends in {path.suffix!r}; give a {', '.join(READERS)} file")
    if not path.is_file():
        raise DataError(f"{path}: no such file; check the path")
    return reader(path)


def _read_parquet(path: Path) -> Rows:
    with open_parquet(path) as parquet:
        rows = (row for batch in read_batches(path, parquet) for row in batch)
        yield from ((f"{path}, row {number}", row) for number, row in enumerate(rows))


def _read_csv(path: Path) -> Rows:
    """Read a table whose first line names the columns; every value stays text."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        try:
            require_distinct(path, reader.fieldnames or [])
            for row in reader:
                if None in row or None in row.values():
                    raise DataError(f"{path}, line {reader.line_num}: not as many values as columns; quote commas")
                yield f"{path}, line {reader.line_num}", row
        except (csv.Error, UnicodeDecodeError) as error:
            raise DataError(f"{path}, line {reader.line_num}: not CSV in UTF-8 ({error}); correct it") from error


def open_parquet(path: Path) -> pq.ParquetFile:
    """Open a parquet file, or raise DataError with what is wrong with it."""
    if not path.exists():
        raise DataError(f"{path}: no such file; check the path, or build it with `rpg data build`")
    if not path.is_file():
        raise DataError(f"{path}: not a file; name the parquet files themselves")
    try:
        parquet = pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path}: not readable as parquet ({reason}); build or download it again") from error
    require_distinct(path, parquet.schema_arrow.names)
    return parquet


def require_distinct(path: Path, names: Sequence[str]) -> None:
    """Raise DataError for a column that a file has twice: a row read by name would hold the last one."""
    for name, count in Counter(names).items():
        if count > 1:
            raise DataError(f"{path}: has the column {name!r} {count} times; keep one of them")


def read_batches(path: Path, parquet: pq.ParquetFile) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of an open parquet file in small batches, so that memory does not grow with it."""
    try:
        for batch in parquet.iter_batches(batch_size=BATCH_ROWS):
            yield batch.to_pylist()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path}: damaged data ({reason}); build or download it again") from error


def _read_json(path: Path) -> Rows:
    """Read an array, or one object a line, as many published .json files are."""
    with path.open("rb") as file:
        is_array = file.read(64).lstrip().startswith(b"[")
        file.seek(0)
        if is_array:
            rows = ((f"{path}, element {number}", row) for number, row in enumerate(_parse(file.read(), str(path))))
        else:
            places = ((f"{path}, line {number}", line) for number, line in enumerate(file, start=1) if line.strip())
            rows = ((place, _parse(line, place)) for place, line in places)
        for place, row in rows:
            if not isinstance(row, dict):
                raise DataError(f"{place}: {row!r:.80} is no object; each row is {{column: value}}")
            yield place, row


def _parse(text: bytes, place: str) -> Any:
    try:
        return json.loads(text)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{place}: not JSON ({error}); correct it or leave it out") from error


READERS = {".parquet": _read_parquet, ".jsonl": _read_json, ".json": _read_json, ".csv": _read_csv}


def read_hub(name: str, repository: str, config: str | None, split: str) -> Rows:
    """Stream the rows of set `name` from the Hugging Face hub; nothing is held in memory.

    Raises DataError, naming the repository and the way without a hub, where it cannot be reached.
    """
    import datasets
    from datasets.exceptions import DatasetsError
    from huggingface_hub.errors import HfHubHTTPError

    where = f"{repository}{f' ({config})' if config else ''}, split {split}"
    try:
        rows = datasets.load_dataset(repository, config, split=split, streaming=True)
        for number, row in enumerate(rows):
            yield f"{where}, row {number}", row
    except (DatasetsError, HfHubHTTPError, OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(
            f"{where}: not readable from the hub ({reason}). Check the network and HF_ENDPOINT, or download "
            f"the set elsewhere and run `rpg data build {name} --from FILE`"
        ) from error
