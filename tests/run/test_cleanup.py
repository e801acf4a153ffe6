"""Weights of dead runs are removed from shared memory, those of living runs are kept."""

import os
import subprocess
import sys

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


def test_weights_of_a_killed_process():
    name = f"{PREFIX}test_{os.getpid()}"
    command, pipe = [sys.executable, "-c", HOLD, name], subprocess.PIPE
    process = subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True)
    assert process.stdout.readline() == "held\n"
    file = cleanup.SHARED / name
    assert file not in cleanup.remove_weights()
    assert file.exists()
    process.kill()
    process.wait()
    assert file in cleanup.remove_weights()
    assert not file.exists()
