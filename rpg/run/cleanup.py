"""Remove the files of runs in shared memory and /tmp, at a run's end or, after a kill, at the user's next run.

Files in use are kept: a file is in use while a process maps it, a directory while a process holds the lock in it.
"""

import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

from rpg.files.lock import Scratch, remove_dead_scratch
from rpg.run import signals

SHARED = Path("/dev/shm")
WEIGHTS = "verl_weights_"  # verl's weight transfer buffers, 16 MB to 2 GB each
SEMAPHORES = "sem.mp-"  # Python's semaphores: vLLM's, and one per progress bar in a spawned process
# Seconds. Another container may share /dev/shm but not /proc; it opens its semaphores within this time.
GRACE = 60.0


@contextlib.contextmanager
def temporary_files() -> Iterator[None]:
    """Keep temporary files of this process and its Ray in a directory that is removed when the context ends.

    Removes the files of this user's killed runs first.

    These are vLLM's sockets, PyTorch's rendezvous file and verl's locks. Ray's logs and torch's compiled kernels, which
    outlive a run, stay in their usual places.
    """
    if os.environ.get("RAY_ADDRESS"):
        yield
        return
    for path in remove():
        print(f"note: removed {path}, left by a run that was killed", file=sys.stderr)
    before = os.environ.get("TMPDIR")
    os.environ.setdefault("RAY_TMPDIR", before or "/tmp")  # as Ray does
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
    """Remove the files of this user's dead runs; return the paths."""
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
    """Return the inodes of files in /dev/shm that processes have mapped.

    Names would not do: glibc maps a semaphore under another name than its file's.
    """
    inodes = set()
    for process in processes:
        # the process has ended, or belongs to another user
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            lines = Path(f"/proc/{process}/maps").read_text(errors="replace").splitlines()
            inodes.update(int(line.split()[4]) for line in lines if f"{SHARED}/" in line)
    return inodes


def _shared(*prefixes: str) -> Iterator[tuple[Path, os.stat_result]]:
    """Yield the files of /dev/shm with these prefixes; skip those that vanish meanwhile."""
    for prefix in prefixes:
        for path in SHARED.glob(f"{prefix}*"):
            with contextlib.suppress(FileNotFoundError):
                yield path, path.stat()
