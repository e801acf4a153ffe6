"""What runs put into shared memory and /tmp: removed at a run's end, and after a kill by this user's next run here.

Only what no living process has: a file is somebody's while it is mapped, a directory while its process holds the lock
in it.
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
SEMAPHORES = "sem.mp-"  # Python's: vLLM's, and one of every progress bar in a process that was spawned
# seconds; a container beside this one may share /dev/shm with it and not /proc, and has opened its own by then
GRACE = 60.0


@contextlib.contextmanager
def temporary_files() -> Iterator[None]:
    """While in this context, the temporary files of this process and of a Ray of its own have a directory of their own.

    vLLM leaves its sockets there, PyTorch the file by which ranks meet, verl its locks. What is meant to outlive a run
    stays where it would be: Ray's logs, torch's compiled kernels.
    """
    if os.environ.get("RAY_ADDRESS"):
        yield
        return
    outer = tempfile.gettempdir()
    scratch = Scratch("run")
    signals.before_exit.callback(scratch.remove)
    os.environ.setdefault("RAY_TMPDIR", os.environ.get("TMPDIR", "/tmp"))  # Ray's own rule
    os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", os.path.join(outer, f"torchinductor_{os.getuid()}"))
    before = os.environ.get("TMPDIR")
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


def remove() -> list[str]:
    """Remove it; a line for each thing that is gone."""
    return [f"{path}, of a run that is dead" for path in [*remove_dead_scratch(), *_unmapped()]]


def mapped(processes: Iterable[int | str]) -> set[int]:
    """Inodes of the files of /dev/shm that processes have mapped.

    By name a semaphore is not found: glibc makes it under another one.
    """
    inodes = set()
    for process in processes:
        try:
            lines = Path(f"/proc/{process}/maps").read_text(errors="replace").splitlines()
        except (FileNotFoundError, ProcessLookupError, PermissionError):  # it ended, or is another user's
            continue
        inodes.update(int(line.split()[4]) for line in lines if f"{SHARED}/" in line)
    return inodes


def unlink(inodes: set[int]) -> None:
    """Remove the semaphores that are these, which Python left because their processes were killed."""
    for path, found in _shared(SEMAPHORES):
        if found.st_ino in inodes:
            path.unlink(missing_ok=True)


def _shared(kind: str) -> Iterator[tuple[Path, os.stat_result]]:
    """The files of /dev/shm whose names begin with kind, but for those that their processes remove meanwhile."""
    for path in SHARED.glob(f"{kind}*"):
        try:
            found = path.stat()
        except FileNotFoundError:
            continue
        yield path, found


def _unmapped() -> list[Path]:
    files = [*_shared(WEIGHTS), *_shared(SEMAPHORES)]
    ours = {path: found for path, found in files if found.st_uid == os.getuid()}
    old = time.time() - GRACE
    living = mapped(path.name for path in Path("/proc").glob("[0-9]*")) if ours else set()
    dead = [
        path
        for path, found in ours.items()
        if found.st_ino not in living and (path.name.startswith(WEIGHTS) or found.st_mtime < old)
    ]
    for path in dead:
        path.unlink(missing_ok=True)
    return dead
