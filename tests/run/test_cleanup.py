"""Weights of dead runs are removed from shared memory, those of living runs are kept."""

import os
import subprocess
import sys
from multiprocessing import shared_memory

from rpg.run import cleanup

PREFIX = cleanup.WEIGHTS.removesuffix("*")
HOLD = """
import sys
from multiprocessing import resource_tracker, shared_memory
resource_tracker.register = lambda *_: None  # which would remove the buffer, as nobody does for verl's
buffer = shared_memory.SharedMemory(sys.argv[1], create=True, size=4096)
print("held", flush=True)
sys.stdin.read()
"""


def started(code: str, *arguments: str) -> tuple[subprocess.Popen, str]:
    """Start a waiting process; return it and its first line."""
    command = [sys.executable, "-c", code, *arguments]
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    return process, process.stdout.readline().strip()


def test_weights_of_a_killed_process():
    name = f"{PREFIX}test_{os.getpid()}"
    process, _ = started(HOLD, name)
    file = cleanup.SHARED / name
    assert file not in cleanup.remove_weights()
    assert file.exists()
    process.kill()
    process.wait()
    assert file in cleanup.remove_weights()
    assert not file.exists()


def test_weights_that_this_process_maps():
    buffer = shared_memory.SharedMemory(f"{PREFIX}own_{os.getpid()}", create=True, size=4096)
    assert cleanup.SHARED / buffer.name not in cleanup.remove_weights()
    buffer.close()
    buffer.unlink()
