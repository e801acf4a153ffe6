"""A file whose lock a living process holds: the kernel's (flock), so that a kill releases it.

What stands in the file only says who holds it.
"""

import fcntl
import json
import os
import socket
import time
from pathlib import Path

RUN = "run.lock"  # of a run's directory


class Held(Exception):
    """Another process holds the lock; the message says which."""


def holder() -> dict[str, str | int]:
    """What is said of the process that holds a lock."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "since": time.strftime("%Y-%m-%dT%H:%M:%S%z")}


def take(file: Path) -> int:
    """A descriptor of the lock file with the lock on it, and in it who holds it; closing it releases the lock.

    Python's descriptors are not inherited by programs. Raises Held.
    """
    descriptor = _locked(file)
    os.ftruncate(descriptor, 0)
    os.write(descriptor, json.dumps(holder()).encode() + b"\n")
    return descriptor


def held_by(file: Path) -> str | None:
    """Who holds a lock, as Held says it; None where nobody does. Takes it for a moment."""
    if not file.is_file():
        return None
    try:
        with open(file, "rb") as stream:
            fcntl.flock(stream, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return _in_use(file.read_text(errors="replace"))
    return None


def _locked(file: Path) -> int:
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            said = os.read(descriptor, 4096).decode(errors="replace")
            os.close(descriptor)
            raise Held(_in_use(said)) from None
        if os.path.exists(file) and os.path.samestat(os.fstat(descriptor), os.stat(file)):
            return descriptor
        os.close(descriptor)  # whoever held it took the file away with it


def _in_use(said: str) -> str:
    try:
        by = json.loads(said)
        return f"in use by process {by['pid']} on {by['host']}, since {by['since']}"
    except (ValueError, KeyError, TypeError):  # it has the lock, and has not yet said who it is
        return "in use by another process"
