"""Locks held by processes through the kernel (flock): a kill releases them."""

import fcntl
import json
import os
import shutil
import socket
import tempfile
import time
from pathlib import Path

RUN = "run.lock"  # in a run's directory
PREFIX, SCRATCH = "rpg-", "lock"  # prefix of a scratch directory's name; the lock file in it


class Held(Exception):
    """Another process holds the lock; the message names it."""


def take(file: Path) -> int:
    """Lock a file, write the owner into it, and return its descriptor. Closing the descriptor releases the lock.

    Child programs do not inherit the lock. Raises Held.
    """
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(descriptor)
            raise Held(_holder(file)) from None
        if os.path.exists(file) and os.path.samestat(os.fstat(descriptor), os.stat(file)):
            break
        os.close(descriptor)  # the previous owner removed the file before it released the lock
    holder = {"host": socket.gethostname(), "pid": os.getpid(), "since": time.strftime("%Y-%m-%dT%H:%M:%S%z")}
    os.ftruncate(descriptor, 0)
    os.write(descriptor, json.dumps(holder).encode() + b"\n")
    return descriptor


def held_by(file: Path) -> str | None:
    """Return the message of Held if a process holds the lock, else None."""
    if not file.is_file():
        return None
    try:
        with open(file, "rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _holder(file)
    return None


def _holder(file: Path) -> str:
    try:
        holder = json.loads(file.read_bytes())
        return f"in use by process {holder['pid']} on {holder['host']}, since {holder['since']}"
    except (OSError, ValueError, KeyError, TypeError):  # the owner has not written it yet, or has just removed it
        return "in use by another process"


class Scratch:
    """A temporary directory `rpg-NAME-*` of this process. If the process is killed, the next run removes it.

    path: the directory.
    """

    def __init__(self, name: str):
        """Create the directory in Python's directory for temporary files (TMPDIR)."""
        self.path = Path(tempfile.mkdtemp(prefix=f"{PREFIX}{name}-"))
        self._lock = open(self.path / SCRATCH, "w")  # noqa: SIM115  # locked until this process ends
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        """Remove the directory with its content. Safe to call more than once."""
        shutil.rmtree(self.path, ignore_errors=True)
        self._lock.close()


def remove_dead_scratch() -> list[Path]:
    """Remove and return the scratch directories of killed processes."""
    dead = []
    for file in Path(tempfile.gettempdir()).glob(f"{PREFIX}*/{SCRATCH}"):
        try:
            with open(file) as stream:
                fcntl.flock(stream, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(file.parent)
            dead.append(file.parent)
        except (BlockingIOError, FileNotFoundError, PermissionError):  # alive, just removed, or another user's
            continue
    return dead
