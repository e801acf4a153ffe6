"""`server.py LISTENER DRIVER EARLY... -- LATE...`: import the modules, then fork once for every client.

The server ends with the process DRIVER. It imports the early modules at once, and the late ones with the first client,
in that client's environment: Ray's C++ part reads the ids of job and raylet from it at import, and these are the same
for all workers of a run. The server must have one thread when it forks.
"""

import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import sys
import tempfile
from pathlib import Path
from typing import Any, NoReturn

from rpg.verl_plugin.cpu.preload import SINGLE_THREADED

PR_SET_PDEATHSIG = 1
OUT_OF_THE_WAY = 500  # a client's files use descriptors from here on until they get the client's numbers


def main() -> None:
    descriptor, driver, *modules = sys.argv[1:]
    early, late = modules[: modules.index("--")], modules[modules.index("--") + 1 :]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)  # end with the driver
    if os.getppid() != int(driver):
        sys.exit("preload: the driver was gone before the kernel was told to end the server with it")
    preload(early)
    become(*serve(socket.socket(fileno=int(descriptor)), late))


def preload(modules: list[str]) -> dict[str, str]:
    """Import modules and return the environment variables that they set.

    Raises RuntimeError if a fork is not safe afterwards, because a thread was started.
    """
    before = dict(os.environ)
    for name in modules:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()  # keeps the garbage collector off the shared pages
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        raise RuntimeError(f"preload: importing {modules} started {threads - 1} thread(s); forking would not be safe")
    return {name: value for name, value in os.environ.items() if before.get(name) != value}


def adopt(environment: dict[str, str]) -> None:
    """Replace this process's environment, and the directory for temporary files that was read from it."""
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None


def serve(listener: socket.socket, late: list[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Serve clients forever; return, in each forked child, its request and the variables that the imports set."""
    added: dict[str, str] | None = None
    while True:
        connection, _ = listener.accept()
        request = _read_request(connection)
        if request is not None:
            if added is None:
                adopt({**request["environment"], **SINGLE_THREADED})
                added = preload(late)
                signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the keepers are not waited for
            if os.fork() == 0:
                listener.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                child = os.fork()
                if child:
                    _keep(connection, child, request["received"])
                connection.close()
                return request, added
            for received in request["received"]:
                os.close(received)
        connection.close()


def _keep(connection: socket.socket, child: int, files: list[int]) -> NoReturn:
    """Report the child's start and end to its client, and kill the child if the client is killed."""
    for file in files:
        os.close(file)
    with contextlib.suppress(BrokenPipeError):  # the client has ended
        connection.sendall(b"%d\n" % child)
        select.select([connection, os.pidfd_open(child)], [], [])  # until one of them ends
    os.kill(child, signal.SIGKILL)  # one that has ended keeps its id, and its status, until waitpid
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(BrokenPipeError):
        connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _read_request(connection: socket.socket) -> dict[str, Any] | None:
    """Return a client's request with its descriptors `received`, or None if it is empty."""
    _, received, _, _ = socket.recv_fds(connection, 1, 250)
    with connection.makefile("rb") as stream:
        line = stream.readline()
    return {**json.loads(line), "received": received} if line.endswith(b"\n") else None


def become(request: dict[str, Any], added: dict[str, str]) -> None:
    """Turn this new child into the requested process and run its program."""
    # Ray gives each worker its own process group and signals the whole group when it loses the worker. This would hit
    # the server and all children in its group.
    try:
        os.setpgid(0, request["group"])  # the group of another child of the server, which started this one
    except PermissionError:  # the group is outside the server's session
        os.setpgid(0, 0)
    high = [fcntl.fcntl(received, fcntl.F_DUPFD_CLOEXEC, OUT_OF_THE_WAY) for received in request["received"]]
    for received in request["received"]:
        os.close(received)
    for source, target in zip(high, request["files"], strict=True):
        os.dup2(source, target)  # inheritable, as in the client
        os.close(source)
    adopt({**added, **request["environment"]})
    os.chdir(request["directory"])
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # a new process has its own generator state
    if "torch" in sys.modules and (threads := request["environment"].get("OMP_NUM_THREADS")):
        sys.modules["torch"].set_num_threads(int(threads))  # torch has read the server's variable

    arguments = request["arguments"]
    while arguments[0].startswith("-") and arguments[0] != "-c":  # options of the interpreter
        arguments.pop(0)
    if arguments[0] == "-c":
        code = arguments[1]
        sys.argv = ["-c", *arguments[2:]]
        sys.path[0] = ""
        exec(compile(code, "<string>", "exec"), sys.modules["__main__"].__dict__)
    else:
        sys.argv = arguments
        sys.path[0] = str(Path(arguments[0]).resolve().parent)
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
