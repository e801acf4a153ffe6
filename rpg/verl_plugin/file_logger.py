"""metrics.jsonl is continued by a run that is resumed; verl's file logger begins it anew.

So nothing has to be put together at the end, and a run that is killed leaves the whole.
"""

import io
import json
import os
from pathlib import Path
from typing import Any

from verl.utils import tracking

from rpg.files.whole import write_whole


class AppendingFileLogger(tracking.FileLogger):
    """verl's file logger behind what the file holds already.

    A record of the last step that stands there, of the validation before a resumed run goes on, becomes part of it:
    every step has one line.
    """

    def __init__(self, project_name: str, experiment_name: str):
        """As verl's, whose own opens the file that VERL_FILE_LOGGER_PATH names to write it anew."""
        self.project_name = project_name
        self.experiment_name = experiment_name
        self.filepath = os.environ["VERL_FILE_LOGGER_PATH"]
        path = Path(self.filepath)
        lines = path.read_bytes().splitlines() if path.is_file() else []
        last = json.loads(lines[-1]) if lines else {"step": -1, "data": {}}
        self._last: tuple[int, set[str]] = last["step"], set(last["data"])
        self.fp = open(path, "ab", buffering=0)  # noqa: SIM115  # closed by verl, in finish()

    def log(self, data: dict[str, Any], step: int) -> None:
        """Write a record; of the file's last step only what is not known yet, into its record."""
        last, known = self._last
        if step != last:
            super().log(data, step)
        elif not known.issuperset(data):
            self._add({key: value for key, value in data.items() if key not in known}, step)

    def _add(self, data: dict[str, Any], step: int) -> None:
        *lines, line = Path(self.filepath).read_bytes().splitlines(keepends=True)
        self.fp.close()
        with io.BytesIO() as self.fp:  # verl's way to write numbers
            super().log({**json.loads(line)["data"], **data}, step)
            write_whole(Path(self.filepath), b"".join(lines) + self.fp.getvalue())
        self.fp = open(self.filepath, "ab", buffering=0)  # noqa: SIM115  # as above


def install() -> None:
    """Have verl's Tracking of this process take AppendingFileLogger."""
    tracking.FileLogger = AppendingFileLogger  # type: ignore[misc]
