"""What runs put into shared memory and /tmp: removed at a run's end, and after a kill by this user's next run here.

Only what no living process uses is removed: a file is in use while it is mapped, a directory while its process holds
the lock in it.
"""

import contextlib
import os
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from rpg.files.lock import Scratch, remove_dead_scratch
from rpg.launching import signals

SHARED = Path("/dev/shm")
WEIGHTS = "verl_weights_"  # verl's buffers for weights on their way to vLLM, 16 MB to 2 GB each
SEMAPHORES = "sem.mp-"  # Python's: vLLM's, and one of every progress bar in a spawned process
# Seconds. A container beside this one may share /dev/shm but not /proc; within this time it has opened its semaphores.
GRACE = 60.0


@contextlib.contextmanager
def temporary_files() -> Iterator[None]:
    """In this context, this process and its own Ray keep temporary files in a directory that is then removed.

    vLLM leaves its sockets there, PyTorch the file by which ranks meet, verl its locks. Ray's logs and torch's compiled
    kernels, which outlive a run, stay where they would be.
    """
    if os.environ.get("RAY_ADDRESS"):
        yield
        return
    before = os.environ.get("TMPDIR")
    os.environ.setdefault("RAY_TMPDIR", before or "/tmp")  # Ray's own rule
    kernels = os.path.join(tempfile.gettempdir(), f"torchinductor_{os.getuid()}")
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", kernels)
    scratch = Scratch("run")
    signals.before_exit.callback(scratch.remove)
    os.environ["TMPDIR"] = tempfile.tempdir = str(scratch.path)
    try:
        yield
    finally:
        tempfile.tempdir = None
        if before is None:
            del os.environ["TMPDIR"]
        else:
            os.environ["TMPDIR"] = before
        scratch.remove()


def remove() -> list[Path]:
    """Remove what dead runs of this user left; return the paths."""
    files = {path: status for path, status in _shared(WEIGHTS, SEMAPHORES) if status.st_uid == os.getuid()}
    old = time.time() - GRACE
    in_use = mapped(path.name for path in Path("/proc").glob("[0-9]*")) if files else set()
    dead = [
        path
        for path, status in files.items()
        if status.st_ino not in in_use and (path.name.startswith(WEIGHTS) or status.st_mtime < old)
    ]
    for path in dead:
        path.unlink(missing_ok=True)
    return [*remove_dead_scratch(), *dead]


def mapped(processes: Iterable[int | str]) -> set[int]:
    """Inodes of the files of /dev/shm that processes have mapped.

    Not their names: glibc maps a semaphore under another name than its file's.
    """
    inodes = set()
    for process in processes:
        # it ended, or is another user's
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            lines = Path(f"/proc/{process}/maps").read_text(errors="replace").splitlines()
            inodes.update(int(line.split()[4]) for line in lines if f"{SHARED}/" in line)
    return inodes


def unlink(inodes: set[int]) -> None:
    """Remove the semaphores with these inodes, which Python left because their processes were killed."""
    for path, status in _shared(SEMAPHORES):
        if status.st_ino in inodes:
            path.unlink(missing_ok=True)


def _shared(*prefixes: str) -> Iterator[tuple[Path, os.stat_result]]:
    """The files of /dev/shm with these prefixes, without those that their processes remove meanwhile."""
    for prefix in prefixes:
        for path in SHARED.glob(f"{prefix}*"):
            with contextlib.suppress(FileNotFoundError):
                yield path, path.stat()
