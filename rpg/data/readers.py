"""Rows of a published problem set, one at a time: from parquet, JSON, JSONL or the hub."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rpg.data.sources import Source

BATCH_ROWS = 1024
MAX_JSON_BYTES = 512 << 20  # a JSON array is read whole; JSONL and parquet are not


class DataError(ValueError):
    """Input that cannot be used; the message names the file, the place, the value and the remedy."""


def read_file(path: str | Path) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield (place, row) for every row of a local file; `place` names file and row for messages."""
    path = Path(path)
    readers = {".parquet": _read_parquet, ".jsonl": _read_jsonl, ".json": _read_json}
    reader = readers.get(path.suffix.lower())
    if reader is None:
        raise DataError(f"{path}: the name ends in {path.suffix!r}; give a {', '.join(readers)} file")
    if not path.is_file():
        raise DataError(f"{path}: no such file; check the path")
    return reader(path)


def open_parquet(path: Path) -> pq.ParquetFile:
    """Open a parquet file, or raise DataError with what is wrong with it."""
    if not path.exists():
        raise DataError(f"{path}: no such file; check the path, or build it with `rpg data build`")
    if not path.is_file():
        raise DataError(f"{path}: not a file; name the parquet files themselves")
    try:
        return pq.ParquetFile(path)
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path}: not readable as parquet ({reason}); build or download it again") from error


def read_batches(path: Path, parquet: pq.ParquetFile) -> Iterator[list[dict[str, Any]]]:
    """Yield the rows of an open parquet file in small batches, so that memory does not grow with it."""
    try:
        for batch in parquet.iter_batches(batch_size=BATCH_ROWS):
            yield batch.to_pylist()
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        reason = str(error).splitlines()[0]
        raise DataError(f"{path}: damaged data ({reason}); build or download it again") from error


def _read_parquet(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with open_parquet(path) as parquet:
        number = 0
        for rows in read_batches(path, parquet):
            for row in rows:
                yield f"{path}, row {number}", row
                number += 1


def _read_jsonl(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with path.open("rb") as lines:
        for number, line in enumerate(lines):
            if line.strip():
                place = f"{path}, line {number + 1}"
                yield place, _as_row(_parse(line, place), place)


def _read_json(path: Path) -> Iterator[tuple[str, dict[str, Any]]]:
    with path.open("rb") as file:
        first = file.read(64).lstrip()[:1]
    if first != b"[":  # many published .json files hold one object a line
        yield from _read_jsonl(path)
        return
    if path.stat().st_size > MAX_JSON_BYTES:
        raise DataError(f"{path}: a JSON array of {path.stat().st_size} bytes; convert it to .jsonl or .parquet")
    for number, value in enumerate(_parse(path.read_bytes(), str(path))):
        place = f"{path}, element {number}"
        yield place, _as_row(value, place)


def _parse(data: bytes, place: str) -> Any:
    try:
        return json.loads(data)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"{place}: not JSON ({error}); correct the line or leave it out") from error


def _as_row(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise DataError(f"{place}: {value!r:.80} is no object; each row is {{column: value}}")
    return value


def read_hub(source: Source) -> Iterator[tuple[str, dict[str, Any]]]:
    """Stream the rows of `source` from the hub through `datasets`; nothing is held in memory.

    Raises DataError, naming the repository and the way without a hub, where it cannot be reached.
    """
    import datasets
    from datasets.exceptions import DatasetsError
    from huggingface_hub.errors import HfHubHTTPError

    where = f"{source.repo}" + (f" ({source.config})" if source.config else "") + f", split {source.hub_split}"
    try:
        rows = datasets.load_dataset(source.repo, source.config, split=source.hub_split, streaming=True)
        for number, row in enumerate(rows):
            yield f"{where}, row {number}", row
    except (DatasetsError, HfHubHTTPError, OSError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise DataError(
            f"{where}: not readable from the hub ({reason}). Check the network and HF_ENDPOINT, or download "
            f"the set elsewhere and run `rpg data build {source.name} --from FILE`"
        ) from error
