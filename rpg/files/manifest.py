"""A checkpoint's manifest.json lists its files with sizes and checksums; it is written when all files are complete.

The checksum is CRC-32 of the whole file: it detects damage, not tampering. Its speed is 2.1 GB/s on one core of
an AMD EPYC (SHA-256: 0.7): the 90 GB of a 7B model with its optimizer take 43 s on one core, 6 s on eight.

The manifest covers the files that the writing process sees. On several nodes without a shared directory, these are
the driver's files.
"""

import json
import os
import shutil
import zlib
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TypedDict

from rpg.files.atomic import write_whole

NAME = "manifest.json"
THREADS = 8  # more threads would wait for the disk
BLOCK = 1 << 20


class Entry(TypedDict):
    """Size of a file in bytes, and its CRC-32 as eight hexadecimal digits."""

    bytes: int
    crc32: str


def begin(directory: Path) -> None:
    """Create a checkpoint's directory, or empty that of an earlier save of the same step.

    The manifest is removed first, because files of two saves are not a checkpoint. Raises OSError.
    """
    directory.mkdir(parents=True, exist_ok=True)
    (directory / NAME).unlink(missing_ok=True)
    for path in directory.iterdir():
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path)
        else:
            path.unlink()


def write(directory: Path) -> dict[str, Entry]:
    """Write the manifest of all files in a directory and return their entries by path; the last step of a save.

    The files are not flushed to disk: checksums detect a loss. Raises OSError, which names the file.
    """
    files = sorted(path for path in directory.rglob("*") if path.is_file() and path.name != NAME)
    entries: dict[str, Entry] = {
        path.relative_to(directory).as_posix(): {"bytes": path.stat().st_size, "crc32": crc32}
        for path, crc32 in zip(files, checksums(files), strict=True)
    }
    write_whole(directory / NAME, json.dumps({"format": 1, "files": entries}, indent=1) + "\n")
    return entries


def read(directory: Path) -> dict[str, Entry]:
    """Return the entries of a directory's manifest. Raises OSError, ValueError, KeyError or TypeError."""
    return json.loads((directory / NAME).read_bytes())["files"]


def fault(directory: Path, *, contents: bool = True) -> str | None:
    """Return why a directory is no complete checkpoint, None for a complete one.

    Every listed file must exist with its size and, with `contents`, its checksum, which is computed only if all sizes
    match. Other files, such as an export, are ignored.
    """
    if not (directory / NAME).is_file():
        return f"{NAME} is missing: the save did not finish, or plain verl wrote it"
    try:
        entries = read(directory)
        for name, entry in entries.items():
            size = (directory / name).stat().st_size if (directory / name).is_file() else 0
            if size != entry["bytes"]:
                return f"{name} has {size} of {entry['bytes']} bytes"
        if contents:
            made = checksums(directory / name for name in entries)
            for (name, entry), crc32 in zip(entries.items(), made, strict=True):
                if crc32 != entry["crc32"]:
                    return f"{name} is damaged: its CRC-32 is {crc32}, {NAME} lists {entry['crc32']}"
    except (OSError, ValueError, KeyError, TypeError) as error:
        return f"{NAME} or a file of it cannot be read: {error!r}"
    return None


def checksums(files: Iterable[Path]) -> list[str]:
    """Return the checksum of each file in the given order, several at a time. Raises OSError, which names the file."""
    with ThreadPoolExecutor(min(THREADS, len(os.sched_getaffinity(0)))) as pool:
        return list(pool.map(checksum, files))


def checksum(file: Path) -> str:
    """Return the CRC-32 of a file's bytes as eight hexadecimal digits. Raises OSError."""
    value, block = 0, memoryview(bytearray(BLOCK))
    with open(file, "rb", buffering=0) as stream:
        while count := stream.readinto(block):
            value = zlib.crc32(block[:count], value)
    return f"{value:08x}"
