"""The import server: a program started through it cannot be told from one that Python started."""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import rpg
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


def test_a_variable_of_the_server_does_not_leak(server):
    first = run(server, "-c", "import os; print(os.environ.get('ONLY_ONCE'))", env={**os.environ, "ONLY_ONCE": "1"})
    second = run(server, "-c", "import os; print(os.environ.get('ONLY_ONCE'))")
    assert (first.stdout, second.stdout) == ("1\n", "None\n")


def test_a_script_runs_as_main_with_its_directory_on_the_path(server, tmp_path):
    (tmp_path / "helper.py").write_text("value = 42\n")
    (tmp_path / "script.py").write_text("import helper\nif __name__ == '__main__':\n    print(helper.value)\n")
    assert run(server, "-u", str(tmp_path / "script.py")).stdout == "42\n"


def test_open_files_are_inherited(server):
    reading, writing = os.pipe()
    code = f"import os; os.write({writing}, b'through')"
    run(server, "-c", code, pass_fds=[writing])
    os.close(writing)
    assert os.read(reading, 100) == b"through"
    os.close(reading)


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


def test_what_ended_the_server_is_said(tmp_path):
    for number, in_log in ((signal.SIGTERM, True), (signal.SIGKILL, False)):
        server = Preloaded(["json"], ["decimal"], tmp_path / number.name)
        run(server, "-c", "pass")
        server._server.send_signal(number)
        server._server.wait(120)
        assert f"the import server was ended by {number.name}" in (server.failure() or "")
        server.close()
        assert not Path(server.executable).exists()
        assert (f"ended by {number.name}" in (tmp_path / number.name).read_text()) == in_log


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


def test_a_killed_program_is_reported_by_its_signal(server):
    process, child = started(server)
    os.kill(child, signal.SIGKILL)
    assert process.wait(120) == -signal.SIGKILL


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


def test_waiting_ends_with_the_early_imports_or_with_the_server(tmp_path):
    (tmp_path / "marked.py").write_text(f"import time; time.sleep(1); open({str(tmp_path / 'mark')!r}, 'w').close()\n")
    code = (
        "import sys; from pathlib import Path; from rpg.verl_plugin.cpu.preload import Preloaded\n"
        f"s = Preloaded([sys.argv[1]], ['decimal'], Path({str(tmp_path / 'log')!r}))\n"
        "s.wait_for_early(); print(Path(sys.argv[2]).exists()); s.close()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    for module, expected in (("marked", "True\n"), ("no_such_module", "True\n")):
        command = [sys.executable, "-c", code, module, str(tmp_path / "mark")]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=True)
        assert done.stdout == expected


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


def test_a_module_that_cannot_be_imported_is_said(tmp_path):
    server = Preloaded(["no_such_module"], ["decimal"], tmp_path / "log")
    until = time.monotonic() + 120
    while server.failure() is None and time.monotonic() < until:
        time.sleep(0.05)
    assert "exit code 1" in (server.failure() or "")
    server.close()
    assert "no_such_module" in (tmp_path / "log").read_text()


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


def test_it_works_from_a_directory_of_any_name(tmp_path):
    package = tmp_path / "a b,c='d'\"($x&;ü" / "rpg"
    shutil.copytree(Path(rpg.__file__).parent, package, symlinks=True)
    code = (
        "import subprocess; from pathlib import Path; from rpg.verl_plugin.cpu.preload import HERE, Preloaded\n"
        "print(HERE, flush=True); s = Preloaded(['json'], ['decimal'], Path('log'))\n"
        "subprocess.run([s.executable, '-c', 'print(40 + 2)'], check=True, timeout=300); s.close()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(package.parent)}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout == f"{package / 'verl_plugin/cpu/preload'}\n42\n", done.stderr
