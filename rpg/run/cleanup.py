"""End the processes of a run, and remove the weights that killed runs left in shared memory."""

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

import psutil

if TYPE_CHECKING:
    from rpg.verl_plugin.cpu.preload import Preloaded

SHARED = Path("/dev/shm")
WEIGHTS = "verl_weights_*"  # verl's buffers of weight transfers, 16 MB to 2 GB each
GRACE = 5.0  # seconds from SIGTERM to SIGKILL


def end_descendants(kept: "Preloaded | None" = None) -> None:
    """End all living processes that this run started but the kept one: SIGTERM, then SIGKILL after GRACE."""
    remaining = [child for child in psutil.Process().children(recursive=True) if not kept or child.pid != kept.pid]
    for end in (psutil.Process.terminate, psutil.Process.kill):
        for process in remaining:
            with contextlib.suppress(psutil.NoSuchProcess):
                end(process)
        _, remaining = psutil.wait_procs(remaining, timeout=GRACE)


def remove_weights() -> list[Path]:
    """Remove this user's buffers that no process maps; return their paths."""
    files = {path: status for path in SHARED.glob(WEIGHTS) if (status := path.stat()).st_uid == os.getuid()}
    mapped = set()
    for maps in Path("/proc").glob("[0-9]*/maps") if files else ():
        # the process has ended, or belongs to another user
        with contextlib.suppress(FileNotFoundError, ProcessLookupError, PermissionError):
            lines = maps.read_text(errors="replace").splitlines()
            mapped |= {int(line.split()[4]) for line in lines if f"{SHARED}/" in line}
    dead = [path for path, status in files.items() if status.st_ino not in mapped]
    for path in dead:
        path.unlink(missing_ok=True)
    return dead
