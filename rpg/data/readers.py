"""Rows of a problem set, one at a time: from parquet, JSON, JSONL or the hub.

JSON is read by Python: a table's reader would turn the answer "025" into 25 and refuse columns of mixed types.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

BATCH_ROWS = 1024
SUFFIXES = (".parquet", ".jsonl", ".json")
Rows = Iterator[tuple[str, dict[str, Any]]]


class DataError(ValueError):
    """Input that cannot be used; the message names the file, the place, the value and the remedy."""


def read_file(path: str | Path) -> Rows:
    """Yield (place, row) for every row of a local file; `place` names file and row for messages."""
    path = Path(path)
    if path.suffix.lower() not in SUFFIXES:
        raise DataError(f"{path}: the name ends in {path.suffix!r}; give a {', '.join(SUFFIXES)} file")
    if not path.is_file():
        raise DataError(f"{path}: no such file; check the path")
    if path.suffix.lower() == ".parquet":
        with open_parquet(path) as parquet:
            rows = (row for batch in read_batches(path, parquet) for row in batch)
            yield from ((f"{path}, row {number}", row) for number, row in enumerate(rows))
    else:
        yield from _read_json(path)


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


def _read_json(path: Path) -> Rows:
    """Read an array, or one object a line, as many published .json files are."""
    with path.open("rb") as file:
        is_array = file.read(64).lstrip().startswith(b"[")
        file.seek(0)
        parts = [file.read()] if is_array else file
        for number, part in enumerate(parts, start=1):
            if not part.strip():
                continue
            place = f"{path}, line {number}"
            try:
                value = json.loads(part)
            except (json.JSONDecodeError, UnicodeDecodeError) as error:
                raise DataError(f"{place}: not JSON ({error}); correct it or leave it out") from error
            for index, row in enumerate(value if is_array else [value]):
                if is_array:
                    place = f"{path}, element {index}"
                if not isinstance(row, dict):
                    raise DataError(f"{place}: {row!r:.80} is no object; each row is {{column: value}}")
                yield place, row


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
