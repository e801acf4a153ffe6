"""verl 0.9.1: its file logger empties metrics.jsonl when a run is resumed.

With this file a resumed run appends to it, so that it has all steps even after a kill.

May go when verl's FileLogger appends to its file and writes no second record of the step before the resume.
"""

import json
import os
from pathlib import Path
from typing import Any

import orjson
from verl.utils import tracking

from rpg.files.atomic import write_whole


class AppendingFileLogger:
    """verl's file logger, appending.

    A resumed run validates before it trains and logs that under the last step in the file; the new metrics are merged
    into that step's record, so that every step has one line. They replace those of the earlier validation, whose saved
    samples verl overwrites.
    """

    def __init__(self, project_name: str, experiment_name: str):
        self._path = Path(os.environ["VERL_FILE_LOGGER_PATH"])
        lines = self._path.read_bytes().splitlines() if self._path.is_file() else []
        self._last_step = json.loads(lines[-1])["step"] if lines else None

    def log(self, data: dict[str, Any], step: int) -> None:
        """Write a record; for the file's last step, merge the metrics into its record."""
        if step == self._last_step:
            *lines, last = self._path.read_bytes().splitlines(keepends=True)
            merged = self._line({**json.loads(last)["data"], **data}, step)
            write_whole(self._path, b"".join([*lines, merged]))
        else:
            with open(self._path, "ab") as stream:
                stream.write(self._line(data, step))
        self._last_step = step

    @staticmethod
    def _line(data: dict[str, Any], step: int) -> bytes:
        return orjson.dumps({"step": step, "data": data}, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n"

    def finish(self) -> None:
        """Do nothing: no file is open."""


def install() -> None:
    """Make verl's Tracking of this process use AppendingFileLogger."""
    tracking.FileLogger = AppendingFileLogger  # type: ignore[assignment, misc]
