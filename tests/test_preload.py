"""The import server: a program started through it cannot be told from one that Python started."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rpg.preload import Preloaded


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    preloaded = Preloaded(["json", "numpy"], ["decimal"], tmp_path_factory.mktemp("preload") / "log")
    yield preloaded
    preloaded.close()


def run(server: Preloaded, *arguments: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([server.executable, *arguments], capture_output=True, text=True, timeout=60, **options)


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


def test_an_exception_is_a_traceback_and_exit_code_1(server):
    ended = run(server, "-c", "1 / 0")
    assert ended.returncode == 1
    assert "ZeroDivisionError" in ended.stderr


def test_open_files_are_inherited(server):
    reading, writing = os.pipe()
    code = f"import os; os.write({writing}, b'through')"
    run(server, "-c", code, pass_fds=[writing])
    os.close(writing)
    assert os.read(reading, 100) == b"through"
    os.close(reading)


def test_random_numbers_differ(server):
    code = "import numpy, random; print(numpy.random.rand(), random.random())"
    assert run(server, "-c", code).stdout != run(server, "-c", code).stdout


def started(server: Preloaded) -> tuple[subprocess.Popen, int]:
    code = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    process = subprocess.Popen([server.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    return process, int(process.stdout.readline())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_signals_reach_the_program(server, number):
    process, child = started(server)
    process.send_signal(number)
    assert process.wait(10) == -number
    _gone(child)


def test_a_killed_program_is_reported_by_its_signal(server):
    process, child = started(server)
    os.kill(child, signal.SIGKILL)
    assert process.wait(10) == -signal.SIGKILL


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


def test_close_ends_the_server_and_removes_its_files(tmp_path):
    server = Preloaded(["json"], ["decimal"], tmp_path / "log")
    assert run(server, "-c", "pass").returncode == 0
    assert server.failure() is None
    server.close()
    assert not Path(server.executable).exists()


def test_a_module_that_cannot_be_imported_is_said(tmp_path):
    server = Preloaded(["no_such_module"], ["decimal"], tmp_path / "log")
    until = time.monotonic() + 20
    while server.failure() is None and time.monotonic() < until:
        time.sleep(0.05)
    assert "exit code 1" in (server.failure() or "")
    assert "no_such_module" in (tmp_path / "log").read_text()
    server.close()


def test_a_module_that_starts_a_thread_is_refused(tmp_path):
    (tmp_path / "threaded.py").write_text(
        "import threading, time\nthreading.Thread(target=time.sleep, args=(5,), daemon=True).start()\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    code = (
        "import sys, time; from pathlib import Path; from rpg.preload import Preloaded\n"
        f"s = Preloaded(['threaded'], ['decimal'], Path({str(tmp_path / 'log')!r}))\n"
        "while s.failure() is None: time.sleep(0.05)\n"
    )
    subprocess.run([sys.executable, "-c", code], env=environment, timeout=30, check=True)
    assert "forking would not be safe" in (tmp_path / "log").read_text()


def _gone(pid: int) -> None:
    until = time.monotonic() + 10
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < until, f"process {pid} still lives"
        time.sleep(0.05)
