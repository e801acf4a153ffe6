"""A run's directory belongs to one living process."""

import contextlib
import fcntl
import json
import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path

from rpg.checks.finding import Finding, Refused

NAME = "run.lock"


@contextlib.contextmanager
def held(directory: Path) -> Iterator[None]:
    """Hold a run's directory, which is made where it is not there, until this process leaves or dies.

    The lock is the kernel's (flock), so that a kill releases it; the file beside it only says who holds it. A run
    that is refused inside this context leaves no directory behind that it made.

    Raises:
        Refused: another process holds it; says which.
    """
    new = [folder for folder in (directory, *directory.parents) if not folder.exists()]
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / NAME
    descriptor = _locked(file)
    try:
        os.ftruncate(descriptor, 0)
        os.write(descriptor, json.dumps(holder()).encode() + b"\n")
        yield
    except Refused:
        if new:
            file.unlink()
        for folder in new:
            with contextlib.suppress(OSError):  # somebody has put something there
                folder.rmdir()
        raise
    finally:
        os.close(descriptor)


def holder() -> dict[str, str | int]:
    """What is said of the process that holds a directory."""
    return {"host": socket.gethostname(), "pid": os.getpid(), "since": time.strftime("%Y-%m-%dT%H:%M:%S%z")}


def _locked(file: Path) -> int:
    """A descriptor of the lock file with the lock on it. Python's descriptors are not inherited by programs."""
    while True:
        descriptor = os.open(file, os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            said = os.read(descriptor, 4096).decode(errors="replace")
            os.close(descriptor)
            raise Refused([Finding("trainer.default_local_dir", str(file.parent), _in_use(said), WAYS)]) from None
        if os.path.exists(file) and os.path.samestat(os.fstat(descriptor), os.stat(file)):
            return descriptor
        os.close(descriptor)  # whoever held it took the file away with it


WAYS = "wait for it, end it, or give this run another directory (CKPTS_DIR, trainer.experiment_name)"


def _in_use(said: str) -> str:
    try:
        by = json.loads(said)
        return f"in use by process {by['pid']} on {by['host']}, since {by['since']}"
    except (ValueError, KeyError, TypeError):  # it has the lock, and has not yet said who it is
        return "in use by another process"
