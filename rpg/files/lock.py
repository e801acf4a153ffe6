"""Locks held by processes through the kernel (flock): a kill releases them."""

import json
import os
import re
import shutil
import socket
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from filelock import FileLock, SoftFileLock, Timeout

RUN = "run.lock"  # in a run's directory
PREFIX, SCRATCH = "rpg-", "lock"  # prefix of a scratch directory's name; the lock file in it
SCRATCH_NAME = re.compile(rf"{PREFIX}[a-z]+-[a-z0-9_]{{8}}")


class Held(Exception):
    """Another process holds the lock; the message names it."""


def take(file: Path) -> FileLock:
    """Lock a file, write the owner into it, and return the lock. Child programs do not inherit it. Raises Held."""
    lock = FileLock(file, blocking=False, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise Held(_holder(file)) from None
    if isinstance(lock, SoftFileLock):  # without flock (some Lustre): by its own record the next one sees a dead owner
        return lock
    holder = {"host": socket.gethostname(), "pid": os.getpid(), "since": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
    file.write_text(json.dumps(holder) + "\n")
    return lock


def held_by(file: Path) -> str | None:
    """Return the message of Held if a process holds the lock, else None."""
    if not file.is_file():
        return None
    try:
        with FileLock(file, blocking=False):
            return None
    except Timeout:
        return _holder(file)


def _holder(file: Path) -> str:
    try:
        holder = json.loads(file.read_bytes())
        return f"in use by process {holder['pid']} on {holder['host']}, since {holder['since']}"
    except (OSError, ValueError, KeyError, TypeError):  # the owner has not written it yet, or has just removed it
        with suppress(OSError, ValueError):  # or it is a SoftFileLock's, which nothing removes if its host dies
            pid, host, *_ = file.read_text().split("\n")
            return f"in use by process {int(pid)} on {host}; if that has ended, remove {file}"
        return f"in use by another process ({file})"


class Scratch:
    """A temporary directory `rpg-NAME-*` of this process. If the process is killed, the next run removes it.

    path: the directory.
    """

    def __init__(self, name: str):
        """Create the directory in Python's directory for temporary files (TMPDIR)."""
        self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{name}-"))
        self._lock = FileLock(self.path / SCRATCH, thread_local=False)  # until this process ends
        self._lock.acquire()

    def remove(self) -> None:
        """Remove the directory with its content. Safe to call more than once."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.release()


def remove_dead_scratch() -> list[Path]:
    """Remove and return the scratch directories of killed processes."""
    dead = []
    for file in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*/{SCRATCH}"):
        try:
            status = file.lstat()
            if not SCRATCH_NAME.fullmatch(file.parent.name) or status.st_uid != os.getuid():
                continue
            with FileLock(file, blocking=False):
                shutil.rmtree(file.parent)
            dead.append(file.parent)
        except (Timeout, OSError):  # alive, just removed, or another user's
            continue
    return dead
