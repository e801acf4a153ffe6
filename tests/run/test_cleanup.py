"""Weights of dead runs are removed from shared memory, those of living runs are kept."""

import os
import signal
import subprocess
import sys
from multiprocessing import shared_memory
from pathlib import Path

import psutil

from rpg.run import cleanup

PREFIX = cleanup.WEIGHTS.removesuffix("*")
PRELOAD = """
import sys
from rpg.verl_plugin.cpu.preload import Preloaded
server = Preloaded(["json"], ["decimal"])
print(server.pid, server.executable, flush=True)
sys.stdin.read()
server.close()
"""
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


def test_an_import_server_ends_with_its_driver():
    killed, line = started(PRELOAD)
    server = psutil.Process(int(line.split()[0]))
    os.kill(killed.pid, signal.SIGKILL)
    killed.wait()
    gone, _ = psutil.wait_procs([server], timeout=30)
    assert gone or server.status() == psutil.STATUS_ZOMBIE  # its new parent has not waited for it yet
    closed, line = started(PRELOAD)
    closed.communicate()
    assert not Path(line.split()[1]).exists()
