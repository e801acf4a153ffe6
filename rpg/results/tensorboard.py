"""Read TensorBoard event files with TensorBoard's own loader."""

import struct
from collections.abc import Iterator
from pathlib import Path

from rpg.results.records import Record, ResultsError, as_step, has_file, reason

PATTERN = "events.out.tfevents.*"
HEAD = struct.Struct("<QI")  # length of a record and that length's checksum; behind the record stands its own
CHECKSUM = struct.Struct("<I")


def event_files(path: Path) -> list[Path]:
    """The event files of a directory in the order in which they were begun, or the file itself."""
    return sorted(path.glob(PATTERN)) if path.is_dir() else [path]


def read_events(path: Path, notes: list[str]) -> Iterator[Record]:
    """Yield the scalars of every event file, one file after the other: a resumed run has several.

    Raises:
        ResultsError: a file that is damaged, or holds something else.
    """
    from google.protobuf.message import DecodeError
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    for file in event_files(path):
        has_file(file)  # refused where a directory or a link into nothing has the name
        require_sound(file, notes)
        steps: dict[int, dict[str, float]] = {}
        try:
            accumulator = EventAccumulator(str(file), size_guidance={"scalars": 0}, purge_orphaned_data=False)
            accumulator.Reload()
            for tag in accumulator.Tags()["scalars"]:
                for event in accumulator.Scalars(tag):
                    steps.setdefault(as_step(event.step), {})[tag] = event.value
        except (DecodeError, ValueError) as error:
            raise ResultsError(f"{file}: no scalars of a run ({reason(error)}); copy it again") from error
        yield from sorted(steps.items())


def require_sound(file: Path, notes: list[str]) -> None:
    """Hold every checksum of an event file against its record: TensorBoard's loader ends at a wrong one and is silent.

    A cut-off end is noted. Raises ResultsError for a damaged file.
    """
    from tensorboard.compat.tensorflow_stub.pywrap_tensorflow import masked_crc32c

    content = file.read_bytes()
    position = 0
    while position + HEAD.size <= len(content):
        length, checksum = HEAD.unpack_from(content, position)
        start = position + HEAD.size
        sound = masked_crc32c(content[position : position + 8]) == checksum
        end = start + length + CHECKSUM.size
        if sound and end > len(content):
            break
        if not sound or masked_crc32c(content[start : start + length]) != CHECKSUM.unpack_from(content, end - 4)[0]:
            raise ResultsError(f"{file}, byte {position}: wrong checksum; the file is damaged, copy it again")
        position = end
    if position != len(content):
        notes.append(f"{file}: the end is cut off: the last record was not written to its end")
