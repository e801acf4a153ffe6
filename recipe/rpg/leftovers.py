"""What runs that were killed left in shared memory and in /tmp; the next run of this user on this machine removes it.

Only what no living process has: a file is somebody's while it is mapped, an import server's directory while its
driver holds the lock in it.
"""

import os
from pathlib import Path

from rpg.preload import remove_dead

SHARED = Path("/dev/shm")
WEIGHTS = "verl_weights_"  # verl's buffers for weights on their way to vLLM, 16 MB to 2 GB each


def remove() -> list[str]:
    """Remove it; a line for each thing that is gone."""
    return [f"{path}, of a run that is dead" for path in [*remove_dead(), *_unmapped()]]


def _unmapped() -> list[Path]:
    ours = [path for path in SHARED.glob(f"{WEIGHTS}*") if path.stat().st_uid == os.getuid()]
    if not ours:
        return []
    mapped = set()
    for maps in Path("/proc").glob("[0-9]*/maps"):
        try:
            lines = maps.read_text(errors="replace").splitlines()
        except (FileNotFoundError, ProcessLookupError, PermissionError):  # it ended, or is another user's
            continue
        mapped.update(line.rpartition("/")[2] for line in lines if WEIGHTS in line)
    dead = [path for path in ours if path.name not in mapped]
    for path in dead:
        path.unlink(missing_ok=True)
    return dead
