"""verl 0.9.1: its file logger empties metrics.jsonl when a run is resumed.

With this file a resumed run appends to it, so that it has all steps even after a kill.

May go when verl's FileLogger appends to its file and writes no second record of the step before the resume.
"""

import json
import os
from pathlib import Path
from typing import Any

import orjson

from rpg.files.atomic import write_whole
from rpg.logged import OF_VALIDATIONS, is_validation


class AppendingFileLogger:
    """verl's file logger, appending.

    A resumed run validates before it trains and logs that under the last step in the file; the new metrics are merged
    into that step's record, so that every step has one line. Its validation replaces the earlier one, whose saved
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
            logged = json.loads(last)["data"]
            if any(map(is_validation, data)):  # with another val_kwargs.n the earlier one has other names
                logged = {name: value for name, value in logged.items() if not name.startswith(OF_VALIDATIONS)}
            write_whole(self._path, b"".join([*lines, self._line({**logged, **data}, step)]))
        else:
            with open(self._path, "ab") as stream:
                stream.write(self._line(data, step))
        self._last_step = step

    @staticmethod
    def _line(data: dict[str, Any], step: int) -> bytes:
        return orjson.dumps({"step": step, "data": data}, option=orjson.OPT_SERIALIZE_NUMPY) + b"\n"

    def finish(self) -> None:
        """Do nothing: no file is open."""
