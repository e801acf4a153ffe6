"""The import server: a program started through it cannot be told from one that Python started."""

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
def server(tmp_path_factory):
    preloaded = Preloaded(["json", "numpy", "torch"], ["decimal"], tmp_path_factory.mktemp("preload") / "log")
    yield preloaded
    preloaded.close()


def run(server: Preloaded, *arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([server.executable, *arguments], capture_output=True, text=True, timeout=300, **options)


def test_modules_are_there_before_the_program_asks(server):
    code = "import sys; print('numpy' in sys.modules, 'decimal' in sys.modules, 'tkinter' in sys.modules)"
    assert run(server, "-c", code).stdout == "True True False\n"


def test_arguments_environment_directory_and_exit_code(server, tmp_path):
    code = "import os, sys; print(sys.argv, os.environ['GREETING'], os.getcwd()); sys.exit(7)"
    ended = run(server, "-c", code, "a b", env={**os.environ, "GREETING": "hello"}, cwd=tmp_path)
    assert ended.stdout == f"['-c', 'a b'] hello {tmp_path}\n"
    assert ended.returncode == 7


def test_torch_has_the_threads_that_the_client_asks_for(server):
    """The server's own torch has one, as a fork of a process with more would not be safe."""
    code = "import torch; print(torch.get_num_threads())"
    assert run(server, "-c", code, env={**os.environ, "OMP_NUM_THREADS": "3"}).stdout == "3\n"


@pytest.fixture
def remote_class(tmp_path, monkeypatch):
    """Name of a module that a server can import, with a class as verl and TransferQueue have many."""
    (tmp_path / "has_remote_class.py").write_text("import ray\n@ray.remote\nclass Worker:\n    pass\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    return "has_remote_class"


def test_forks_make_ids_of_their_own(tmp_path, remote_class):
    """What a process takes from a random generator without being told to: Ray's C++ part, uuid, tempfile and others.

    Chance of a false alarm: two equal numbers among 100 of 37 bits or more (tempfile's names), 100^2 / 2^38 = 4e-8.
    """
    server = Preloaded(["json", "numpy"], ["rpg.verl_plugin.cpu.preload.ray_ids", remote_class], tmp_path / "log")
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
    for kind in zip(*made, strict=True):
        assert len(set(kind)) == 100, kind[:3]


def test_a_module_that_seeds_rays_generator_is_refused(tmp_path, remote_class):
    server = Preloaded(["json"], ["ray", remote_class], tmp_path / "log")
    assert run(server, "-c", "pass").returncode != 0
    until = time.monotonic() + 120
    while server.failure() is None and time.monotonic() < until:
        time.sleep(0.05)
    assert f"importing {remote_class} drew from Ray's random generator" in (server.failure() or "")
    server.close()


def test_a_signal_to_a_programs_group_spares_the_others(server):
    """Ray begins a process group for each worker and signals all of it when it loses the worker."""
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


def started(server: Preloaded) -> tuple[subprocess.Popen, int]:
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    process = subprocess.Popen([server.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_signals_reach_the_program(server, number):
    process, child = started(server)
    process.send_signal(number)
    assert process.wait(120) == -number
    _gone(child)


def test_multiprocessing_spawn_works_through_it(server, tmp_path):
    script = tmp_path / "spawn.py"
    script.write_text(
        "import multiprocessing, sys\n"
        "def double(x):\n    return 2 * x\n"
        "if __name__ == '__main__':\n"
        f"    multiprocessing.set_executable({str(server.executable)!r})\n"
        "    with multiprocessing.get_context('spawn').Pool(1) as pool:\n"
        "        print(pool.map(double, [1, 2, 3]))\n"
    )
    assert run(server, str(script)).stdout == "[2, 4, 6]\n"


def test_a_driver_that_is_killed_at_once_leaves_no_server(tmp_path):
    code = (
        "import os, signal; from pathlib import Path; from rpg.verl_plugin.cpu.preload import Preloaded\n"
        f"server = Preloaded(['json'], ['decimal'], Path({str(tmp_path / 'log')!r}))\n"
        "print(server._server.pid, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)  # before the server's Python is up\n"
    )
    done = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, timeout=300)
    assert done.returncode == -signal.SIGKILL
    _gone(int(done.stdout))


def test_a_module_that_starts_a_thread_is_refused(tmp_path):
    (tmp_path / "threaded.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(5,), daemon=True).start()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    code = (
        "import sys, time; from pathlib import Path; from rpg.verl_plugin.cpu.preload import Preloaded\n"
        f"s = Preloaded(['threaded'], ['decimal'], Path({str(tmp_path / 'log')!r}))\n"
        "while s.failure() is None: time.sleep(0.05)\n"
        "s.close()\n"
    )
    subprocess.run([sys.executable, "-c", code], env=environment, timeout=300, check=True)
    assert "forking would not be safe" in (tmp_path / "log").read_text()


def _gone(pid: int) -> None:
    until = time.monotonic() + 120
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < until, f"process {pid} still lives"
        time.sleep(0.05)
