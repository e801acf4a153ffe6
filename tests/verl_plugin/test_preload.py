"""The import server: a program started through it behaves like one started by Python."""

import os
import signal
import subprocess
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


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_signals_reach_the_program(server, number):
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    process = subprocess.Popen([server.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    child = int(process.stdout.readline())
    process.send_signal(number)
    assert process.wait(120) == -number
    wait_until(lambda: not Path(f"/proc/{child}").exists())
