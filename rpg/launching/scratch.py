"""A directory in /tmp that a living process holds; what a killed one left is removed by the next."""

import fcntl
import shutil
import tempfile
from pathlib import Path

PREFIX = "rpg-"
LOCK = "lock"


class Scratch:
    """A directory of this process, its name beginning with rpg-NAME-, until it is removed or this process ends.

    path: where it is.
    """

    def __init__(self, name: str):
        """Make it, in Python's directory for temporary files (TMPDIR)."""
        self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{name}-"))
        self._lock = open(self.path / LOCK, "w")  # noqa: SIM115  # held until this process ends, however it ends
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Remove it with all that is in it; once more changes nothing."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def remove_dead() -> list[Path]:
    """Remove the directories whose processes were killed; which they were."""
    dead = []
    for file in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{LOCK}"):
        try:
            with open(file) as stream:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(file.parent)
        except (BlockingIOError, FileNotFoundError, PermissionError):  # it lives, is just removed, is another user's
            continue
        dead.append(file.parent)
    return dead
