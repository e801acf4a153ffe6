"""`server.py LISTENER DRIVER EARLY... -- LATE...`: import the modules, then fork once for every client.

See the package; DRIVER is the process that it ends with. The early ones are imported at once, the late ones when the
first client comes, in that client's environment: Ray's C++ part reads the job's and the raylet's ids from it once, when
it is imported, and all of a run's workers agree in them. The server must have one thread when it forks.
"""

import contextlib
import ctypes
import fcntl
import gc
import importlib
import json
import multiprocessing
import os
import runpy
import signal
import socket
import sys
import threading
from pathlib import Path
from typing import Any, NoReturn

from rpg.verl_plugin.cpu.preload import SINGLE_THREADED

PR_SET_PDEATHSIG = 1
OUT_OF_THE_WAY = 500  # a client's files lie from this descriptor on until each gets the client's number


def main() -> None:
    descriptor, driver, *modules = sys.argv[1:]
    early, late = modules[: modules.index("--")], modules[modules.index("--") + 1 :]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)  # no server without its driver
    if os.getppid() != int(driver):
        sys.exit("preload: the driver was gone before the kernel was told to end the server with it")
    preload(early)
    become(*serve(socket.socket(fileno=int(descriptor)), late))


def preload(modules: list[str]) -> dict[str, str]:
    """Import modules; returns the environment variables that importing them has set.

    Raises RuntimeError where a fork would not be safe afterwards: a thread was started, or Ray's generator seeded.
    """
    before = dict(os.environ)
    for name in modules:
        try:
            importlib.import_module(name)
        except (Exception, SystemExit) as error:  # whatever a module's import may raise
            raise RuntimeError(f"preload: importing {name} failed: {error!r}") from error
    if "ray._raylet" in sys.modules and _ray_id_of_a_fork() == _ray_id_of_a_fork():
        raise RuntimeError(
            f"preload: importing {modules} drew from Ray's random generator, so that all forks would have the same "
            "ids; leave what draws out of rpg.preload.late (ray_ids.py)"
        )
    gc.collect()
    gc.freeze()  # the collector then leaves the shared pages alone
    threads = len(os.listdir("/proc/self/task"))
    if threads > 1:
        raise RuntimeError(f"preload: importing {modules} started {threads - 1} thread(s); forking would not be safe")
    return {name: value for name, value in os.environ.items() if before.get(name) != value}


def _ray_id_of_a_fork() -> bytes:
    context = multiprocessing.get_context("fork")
    receiving, sending = context.Pipe(duplex=False)
    unique_id = sys.modules["ray._raylet"].UniqueID
    child = context.Process(target=lambda: sending.send_bytes(unique_id.from_random().binary()))
    child.start()
    sending.close()
    made = receiving.recv_bytes()
    child.join()
    return made


def adopt(environment: dict[str, str]) -> None:
    """Make environment this process's own."""
    os.environ.clear()
    os.environ.update(environment)


def serve(listener: socket.socket, late: list[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Answer clients for ever; returns, in each forked child, the request it has to carry out.

    With it come the environment variables that the imports have set.
    """
    added: dict[str, str] | None = None
    while True:
        connection, _ = listener.accept()
        request = _read_request(connection)
        if request is not None:
            if added is None:
                adopt({**request["environment"], **SINGLE_THREADED})
                added = preload(late)
                signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody waits for the keepers
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
    """Between a client and its program: the client hears of the child's start and end, and takes it along if killed."""
    for file in files:
        os.close(file)

    def end_with_the_client() -> None:
        with contextlib.suppress(ConnectionError):
            connection.recv(1)  # it sends nothing more
        os.kill(child, signal.SIGKILL)

    threading.Thread(target=end_with_the_client, daemon=True).start()
    with contextlib.suppress(BrokenPipeError):  # where the client is gone
        connection.sendall(b"%d\n" % child)
    _, status = os.waitpid(child, 0)
    with contextlib.suppress(BrokenPipeError):
        connection.sendall(b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _read_request(connection: socket.socket) -> dict[str, Any] | None:
    """What a client asks for, with the descriptors `received`; None where it asks for nothing."""
    _, received, _, _ = socket.recv_fds(connection, 1, 250)
    with connection.makefile("rb") as stream:
        line = stream.readline()
    return {**json.loads(line), "received": received} if line.endswith(b"\n") else None


def become(request: dict[str, Any], added: dict[str, str]) -> None:
    """Turn this fresh child into the process that the client asked for, and run its program."""
    gc.unfreeze()
    # Ray gives each worker a group of its own and signals the whole group when it loses the worker. Children left in
    # the server's group would all be hit, and the server too.
    try:
        os.setpgid(0, request["group"])  # started by another child of the server, whose group this is
    except PermissionError:  # a group outside the server's session
        os.setpgid(0, 0)
    high = [fcntl.fcntl(received, fcntl.F_DUPFD_CLOEXEC, OUT_OF_THE_WAY) for received in request["received"]]
    for received in request["received"]:
        os.close(received)
    for source, target in zip(high, request["files"], strict=True):
        os.dup2(source, target)  # inheritable, as the client's was
        os.close(source)
    adopt({**added, **request["environment"]})
    os.chdir(request["directory"])
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # a new process has a generator of its own
    if "torch" in sys.modules and (threads := request["environment"].get("OMP_NUM_THREADS")):
        sys.modules["torch"].set_num_threads(int(threads))  # it has read the server's own

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
