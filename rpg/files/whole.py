"""Files of a run: names that several rooms know, and a way to write one that is whole or absent."""

import json
import os
from pathlib import Path

FINGERPRINT = "fingerprint.json"  # the settings that define a training
LEFT_OUT = "left_out.jsonl"  # responses without a reward
SKIPPED = "skipped_steps.jsonl"  # optimizer steps whose gradient was not finite


def append_record(path: Path, record: dict) -> None:
    """Add a line of JSON to a file that is made where it is not there, its directory too (another node has none)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8") as stream:
        stream.write(json.dumps(record) + "\n")


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file beside its place, and put it there when it is on the disk; what was there stays until then.

    Raises OSError, which names the file, where it cannot be written; nothing has then changed.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(beside, "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error
