"""The lock of a run's directory, held by a process through the kernel (flock): a kill releases it."""

import os
import socket
import time
from pathlib import Path

from filelock import FileLock, SoftFileLock, Timeout

RUN = "run.lock"  # in a run's directory


def take(file: Path) -> FileLock:
    """Lock a file, write the owner into it, and return the lock. Child programs do not inherit it.

    Raises Timeout if another process holds it.
    """
    lock = FileLock(file, blocking=False, thread_local=False)
    lock.acquire()
    if not isinstance(lock, SoftFileLock):  # without flock (some Lustre) the file is the lock, with its own record
        since = time.strftime("%Y-%m-%dT%H:%M:%S%z")
        file.write_text(f"process {os.getpid()} on {socket.gethostname()} since {since}\n")
    return lock


def held_by(file: Path) -> str | None:
    """Return the owner of a lock that a process holds, else None."""
    try:
        with FileLock(file, blocking=False):
            return None
    except Timeout:
        return owner(file)


def owner(file: Path) -> str:
    """Return what the owner wrote into its lock, and the lock's path."""
    return f"{' '.join(file.read_text(errors='replace').split())} ({file})"
