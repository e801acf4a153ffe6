"""verl 0.9.1: its file logger empties metrics.jsonl when a run is resumed.

Here a resumed run continues the file, so that it holds all steps even after a kill.

May go when verl's FileLogger opens its file to append, and writes no second record of the step before the resumption.
"""

import io
import json
import os
from pathlib import Path
from typing import Any

from verl.utils import tracking

from rpg.files.atomic import write_whole


class AppendingFileLogger(tracking.FileLogger):
    """verl's file logger, appending.

    A resumed run validates before it trains and logs that under the last step in the file; the new metrics are merged
    into that step's record, so that every step has one line.
    """

    def __init__(self, project_name: str, experiment_name: str):
        """Replaces verl's, which truncates the file that VERL_FILE_LOGGER_PATH names."""
        self.project_name = project_name
        self.experiment_name = experiment_name
        self.filepath = os.environ["VERL_FILE_LOGGER_PATH"]
        path = Path(self.filepath)
        lines = path.read_bytes().splitlines() if path.is_file() else []
        last = json.loads(lines[-1]) if lines else {"step": -1, "data": {}}
        self._last: tuple[int, set[str]] = last["step"], set(last["data"])
        self.fp = open(path, "ab", buffering=0)  # noqa: SIM115  # closed by verl, in finish()

    def log(self, data: dict[str, Any], step: int) -> None:
        """Write a record; for the file's last step, add the metrics that its record lacks."""
        last, known = self._last
        if step != last:
            super().log(data, step)
        elif not known.issuperset(data):
            self._add({key: value for key, value in data.items() if key not in known}, step)

    def _add(self, data: dict[str, Any], step: int) -> None:
        *lines, line = Path(self.filepath).read_bytes().splitlines(keepends=True)
        self.fp.close()
        with io.BytesIO() as self.fp:  # verl's own format of numbers
            super().log({**json.loads(line)["data"], **data}, step)
            write_whole(Path(self.filepath), b"".join(lines) + self.fp.getvalue())
        self.fp = open(self.filepath, "ab", buffering=0)  # noqa: SIM115  # as above


def install() -> None:
    """Make verl's Tracking of this process use AppendingFileLogger."""
    tracking.FileLogger = AppendingFileLogger  # type: ignore[misc]
