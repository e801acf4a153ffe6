"""File names that several packages use, and two ways to write a file."""

import json
import os
from pathlib import Path

CONFIG = "config.yaml"  # a run's resolved configuration
ENVIRONMENT = "environment.json"  # versions and devices of its last start
METRICS = "metrics.jsonl"  # verl's log, a line a step
SAMPLES = "validation"  # folder of the answers of its validations, STEP.jsonl
LEFT_OUT = "left_out.jsonl"  # responses without a reward


def append_record(path: Path, record: dict) -> None:
    """Append one line of JSON to a file; create the file and its directory, which another node may lack."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a", encoding="utf-8") as stream:
        stream.write(json.dumps(record) + "\n")


def write_whole(path: Path, content: str | bytes) -> None:
    """Write a file atomically: write under another name, flush, rename. `path` holds the old or the new content.

    Raises OSError, which names the file; path is then unchanged.
    """
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        with open(partial, "wb") as stream:
            stream.write(content.encode() if isinstance(content, str) else content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(partial, path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error
