"""The import server: a program started through it behaves like one started by Python."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rpg.verl_plugin.cpu.preload import Preloaded

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server():
    preloaded = Preloaded(["json", "numpy", "torch"], ["decimal"])
    yield preloaded
    preloaded.close()


def wait_until(condition) -> None:
    until = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_program_gets_modules_arguments_environment_directory_threads_and_exit_code(server, tmp_path):
    """The server's torch has one thread, because forking a process with more is not safe."""
    code = (
        "import os, sys, tempfile; print('numpy' in sys.modules, 'decimal' in sys.modules, 'tkinter' in sys.modules, "
        "sys.argv, tempfile.gettempdir(), os.getcwd()); import torch; print(torch.get_num_threads()); sys.exit(7)"
    )
    temporary = tmp_path / "temporary"  # not where the server's modules put theirs
    temporary.mkdir()
    environment = {**os.environ, "TMPDIR": str(temporary), "OMP_NUM_THREADS": "3"}
    command = [server.executable, "-c", code, "a b"]
    ended = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=300)
    assert ended.stdout == f"True True False ['-c', 'a b'] {temporary} {tmp_path}\n3\n"
    assert ended.returncode == 7


THREAD = "import threading, time\nthreading.Thread(target=time.sleep, args=(5,), daemon=True).start()\n"
REMOTE_CLASS = "import ray\n@ray.remote\nclass Worker:\n    pass\n"  # as verl and TransferQueue have many


@pytest.fixture
def written(tmp_path, monkeypatch):
    """Return a function that writes a module `written` for the server."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return (tmp_path / "written.py").write_text


@pytest.mark.full  # a hundred processes
def test_forks_make_ids_of_their_own(written):
    """Implicit random generators: Ray's C++ part, uuid, tempfile and others.

    Chance of a false alarm: two equal numbers among 100 of 37 bits or more (tempfile's names), 100^2 / 2^38 = 4e-8.
    """
    written(REMOTE_CLASS)
    server = Preloaded(["json", "numpy"], ["rpg.verl_plugin.cpu.preload.ray_ids", "written"])
    code = (
        "import ray._raylet, os, random, tempfile, uuid, numpy; print(ray._raylet.UniqueID.from_random().hex(), "
        "uuid.uuid4(), random.random(), numpy.random.rand(), next(tempfile._get_candidate_names()), flush=True); "
        "os._exit(0)"
    )
    made = []
    for _ in range(5):
        processes = [
            subprocess.Popen([server.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(20)
        ]
        made += [process.communicate(timeout=600)[0].split() for process in processes]
    server.close()
    assert len(made) == 100
    for values in zip(*made, strict=True):
        assert len(set(values)) == 100, values[:3]


def test_a_module_that_starts_a_thread_is_refused(written):
    written(THREAD)
    server = Preloaded(["written"], ["decimal"])
    subprocess.run([server.executable, "-c", "pass"], timeout=300)
    wait_until(server.failure)
    assert "forking would not be safe" in server.failure()
    server.close()


def started(server: Preloaded) -> tuple[subprocess.Popen, int]:
    """Start a waiting program; return it and its process."""
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    process = subprocess.Popen([server.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


def test_a_signal_to_a_programs_group_spares_the_others(server):
    """Ray starts a process group per worker and signals the whole group when it loses the worker."""
    code = (
        "import os, subprocess, sys, time\n"
        f"inner = subprocess.Popen([{str(server.executable)!r}, '-c', "
        "'import os, time; print(os.getpgrp(), flush=True); time.sleep(60)'], stdout=subprocess.PIPE, text=True)\n"
        "print(os.getpid(), os.getpgrp(), inner.stdout.readline(), flush=True); time.sleep(60)"
    )
    other, other_pid = started(server)
    outer = subprocess.Popen([server.executable, "-c", code], stdout=subprocess.PIPE, text=True, start_new_session=True)
    assert outer.stdout is not None
    pid, group, inner_group = map(int, outer.stdout.readline().split())
    assert pid == group == inner_group  # what it starts belongs to it, as it would without the server
    os.killpg(group, signal.SIGTERM)
    assert outer.wait(120) == -signal.SIGTERM
    assert server.failure() is None
    assert other.poll() is None
    os.kill(other_pid, signal.SIGKILL)
    other.wait(120)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_signals_reach_the_program(server, number):
    process, child = started(server)
    process.send_signal(number)
    assert process.wait(120) == -number
    wait_until(lambda: not Path(f"/proc/{child}").exists())


def test_a_driver_that_is_killed_at_once_leaves_no_server():
    code = (
        "import os, signal; from rpg.verl_plugin.cpu.preload import Preloaded\n"
        "server = Preloaded(['json'], ['decimal'])\n"
        "print(server._server.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)  # before the server's Python is up\n"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode == -signal.SIGKILL
    wait_until(lambda: not Path(f"/proc/{int(done.stdout)}").exists())
