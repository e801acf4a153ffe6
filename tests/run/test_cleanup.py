"""Files of dead runs are removed, those of living runs are kept."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from multiprocessing import shared_memory
from pathlib import Path

from rpg.run import cleanup

START = """
import sys
from rpg.verl_plugin.cpu.preload import Preloaded
server = Preloaded(["json"], ["decimal"])
print(server.executable.parent, flush=True)
sys.stdin.read()
server.close()
"""


def started(code: str, **environment: str) -> tuple[subprocess.Popen, str]:
    """Start a waiting process in its own group; return it and its first line."""
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
                               start_new_session=True, env={**os.environ, **environment})  # fmt: skip
    return process, process.stdout.readline().strip()


def test_directories_of_import_servers(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    dead, gone = started(START, TMPDIR=str(tmp_path))
    living, kept = started(START, TMPDIR=str(tmp_path))
    os.kill(dead.pid, signal.SIGKILL)  # it alone, so that the import server has to notice
    dead.wait()
    assert Path(gone) in cleanup.remove()
    assert not Path(gone).exists()
    assert Path(kept).exists()
    living.communicate()
    assert not Path(kept).exists()


def test_only_directories_of_ours_are_removed(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for name in ("rpg-results", "rpg-my-results", "rpg-run-abcd1234", "rpg-run-linked00"):
        (tmp_path / name).mkdir()
    for name in ("rpg-results", "rpg-my-results", "rpg-run-abcd1234"):
        (tmp_path / name / "lock").touch()
    (tmp_path / "rpg-run-linked00/lock").symlink_to(tmp_path)
    assert cleanup.remove() == [tmp_path / "rpg-run-abcd1234"]


def test_buffers_of_weights():
    name = f"{cleanup.WEIGHTS}test_{os.getpid()}"
    buffer = shared_memory.SharedMemory(name, create=True, size=4096)
    file = cleanup.SHARED / name
    assert file not in cleanup.remove()
    buffer.close()  # what a kill does: unmapped, and still there
    assert file in cleanup.remove()
    assert not file.exists()


SEMAPHORE = """
import multiprocessing, sys
lock = multiprocessing.get_context("spawn").Lock()
print(lock._semlock.name, flush=True)
sys.stdin.read()
"""


def semaphore() -> tuple[subprocess.Popen, Path]:
    """Start a process with a semaphore like vLLM's engine."""
    process, name = started(SEMAPHORE)
    return process, cleanup.SHARED / f"sem.{name.lstrip('/')}"


def test_semaphores():
    """A sweep removes those that no process maps, except very young ones, of another container perhaps."""
    others, other = semaphore()
    os.killpg(others.pid, signal.SIGKILL)  # also Python's resource tracker, which would clean up
    others.wait()
    assert other not in cleanup.remove()
    os.utime(other, (time.time() - 100,) * 2)
    living, kept = semaphore()
    os.utime(kept, (time.time() - 100,) * 2)
    assert other in cleanup.remove()
    assert kept.exists()
    os.killpg(living.pid, signal.SIGKILL)
    kept.unlink()
