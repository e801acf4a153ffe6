"""Read a .wandb file: the record log of a W&B run, as written offline, without W&B's own service.

The file is a LevelDB log: after a header of 7 bytes, blocks of 32 KiB of chunks; a chunk is crc32 (4 bytes),
length (2), type (1) and data; a record is one chunk or several. Each record is a protobuf message of the
wandb package, whose Python side has no reader since its service moved to Go.
"""

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rpg.results.records import Record, ResultsError, as_step, has_file, numbers, parse_json, reason

HEADER = b":W&B"
HEADER_SIZE = 7
BLOCK = 32768
CHUNK_HEAD = struct.Struct("<IHB")
FULL, FIRST, MIDDLE, LAST = 1, 2, 3, 4


@dataclass
class WandbRun:
    """What a .wandb file holds of one run."""

    name: str | None = None
    config: dict[str, Any] = field(default_factory=dict)
    records: list[Record] = field(default_factory=list)


def read_wandb(path: Path, notes: list[str]) -> WandbRun:
    """Name, configuration and history of the run in `path`. A cut-off end is noted.

    Raises:
        ResultsError: not a .wandb file, or a damaged one.
    """
    from google.protobuf.message import DecodeError

    run = WandbRun()
    for number, data in enumerate(read_chunks(path, notes), start=1):
        try:
            _take(run, data)
        except (DecodeError, ValueError, RecursionError) as error:
            raise ResultsError(
                f"{path}, record {number}: not of a run ({reason(error)}); was it written by verl's wandb logger?"
            ) from error
    run.config.pop("_wandb", None)
    return run


def _take(run: WandbRun, data: bytes) -> None:
    """Add what a record says to `run`."""
    from wandb.proto import wandb_internal_pb2

    message = wandb_internal_pb2.Record.FromString(data)  # type: ignore[attr-defined] # made at import
    if message.HasField("run"):
        run.name = message.run.display_name or run.name
        run.config.update(_items(message.run.config.update))
    elif message.HasField("config"):
        run.config.update(_items(message.config.update))
    elif message.HasField("history"):
        values = numbers(_items(message.history.item))
        step = message.history.step.num if message.history.HasField("step") else values.get("_step")
        run.records.append((as_step(step), {k: v for k, v in values.items() if not k.startswith("_")}))


def _items(items: Any) -> dict[str, Any]:
    return {item.key or "/".join(item.nested_key): parse_json(item.value_json) for item in items}


def read_chunks(path: Path, notes: list[str]) -> Iterator[bytes]:
    """Yield the records of a LevelDB log; stops at a cut-off end and says so in `notes`.

    Raises:
        ResultsError: not a .wandb file, or a chunk whose checksum is wrong.
    """
    has_file(path)  # refused where a directory or a link into nothing has the name
    content = path.read_bytes()
    if content[:4] != HEADER:
        raise ResultsError(f"{path}: not a .wandb file (it starts with {content[:4]!r}, not {HEADER!r})")
    position, parts = HEADER_SIZE, []
    while position < len(content):
        left = BLOCK - position % BLOCK
        if left < CHUNK_HEAD.size:  # too small for a chunk: padding
            position += left
            continue
        if position + CHUNK_HEAD.size > len(content):
            break
        checksum, length, kind = CHUNK_HEAD.unpack_from(content, position)
        start = position + CHUNK_HEAD.size
        data = content[start : start + length]
        if len(data) < length:
            break
        if zlib.crc32(data, zlib.crc32(bytes([kind]))) != checksum:
            raise ResultsError(f"{path}, byte {position}: wrong checksum; the file is damaged, copy it again")
        position = start + length
        if kind in (FULL, FIRST):
            parts = []
        parts.append(data)
        if kind in (FULL, LAST):
            yield b"".join(parts)
            parts = []
    if position != len(content) or parts:
        notes.append(f"{path}: the end is cut off: the last record was not written to its end")
