"""`server.py LISTENER DRIVER EARLY... -- LATE...`: import the modules, then fork once for every client.

See the package; DRIVER is the process that it ends with. The early ones are imported at once, the late ones when the
first client comes, in that client's environment: Ray's C++ part reads the job's and the raylet's ids from it once, when
it is imported, and all of a run's workers agree in them. The server must have one thread when it forks, and says how
long each part took and what ends it.
"""

import contextlib
import ctypes
import faulthandler
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import struct
import sys
import time
import traceback
from pathlib import Path
from typing import Any

from rpg.verl_plugin.cpu.preload import SINGLE_THREADED

PR_SET_PDEATHSIG = 1
LENGTH = struct.Struct("!I")
ENDING = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
OWN_FILES = 500  # the server's own descriptors lie from here on, out of the way of the clients'


def main() -> None:
    descriptor, driver, *modules = sys.argv[1:]
    early, late = modules[: modules.index("--")], modules[modules.index("--") + 1 :]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)  # no server without its driver
    if os.getppid() != int(driver):
        sys.exit("preload: the driver was gone before the kernel was told to end the server with it")
    faulthandler.enable()
    for number in ENDING:
        signal.signal(number, _ended)
    listener = _moved(socket.socket(fileno=int(descriptor)))
    preload(early)
    become(*serve(listener, late))


def _ended(number: int, frame: object) -> None:
    print(f"preload: the server was ended by {signal.Signals(number).name}", flush=True)
    signal.signal(number, signal.SIG_DFL)
    os.kill(os.getpid(), number)


def preload(modules: list[str]) -> dict[str, str]:
    """Import modules; returns the environment variables that importing them has set.

    Raises RuntimeError where a fork would not be safe afterwards: a thread was started, or Ray's generator seeded.
    """
    before, began = dict(os.environ), time.monotonic()
    for name in modules:
        _import(name)
        if "ray._raylet" in sys.modules and _ray_id_of_a_child() == _ray_id_of_a_child():
            raise RuntimeError(
                f"preload: importing {name} drew from Ray's random generator, so that all forks would have the same "
                "ids; leave it out of rpg.preload.late, or find what draws (ray_ids.py)"
            )
    gc.collect()
    gc.freeze()  # the collector then leaves the shared pages alone
    threads = len(os.listdir("/proc/self/task"))
    print(f"preload: {len(modules)} modules in {time.monotonic() - began:.1f} s, {threads} thread(s)", flush=True)
    if threads > 1:
        raise RuntimeError(f"preload: importing {modules} started {threads - 1} thread(s); forking would not be safe")
    return {name: value for name, value in os.environ.items() if before.get(name) != value}


def _import(name: str) -> None:
    """Import a module. One that cannot be imported ends the server; the last line it writes names it, and why."""
    try:
        importlib.import_module(name)
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever a module's import may raise
        traceback.print_exc()
        why = " ".join(str(error).split())
        sys.exit(f"preload: importing {name} failed: {type(error).__name__}: {why}")


def _ray_id_of_a_child() -> bytes:
    """A random id that Ray makes in a fork of this process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.write(writing, sys.modules["ray._raylet"].UniqueID.from_random().binary())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as stream:
        made = stream.read()
    os.waitpid(child, 0)
    if not made:
        raise RuntimeError("preload: a fork of the server could not make an id with Ray")
    return made


def adopt(environment: dict[str, str], keep: dict[str, str]) -> None:
    """Make environment this process's own, but for the variables in keep."""
    os.environ.clear()
    os.environ.update(environment)
    os.environ.update(keep)


def _moved(sock: socket.socket) -> socket.socket:
    """The same socket under a descriptor from OWN_FILES on."""
    import fcntl

    high = fcntl.fcntl(sock.fileno(), fcntl.F_DUPFD_CLOEXEC, OWN_FILES)
    sock.close()
    return socket.socket(fileno=high)


def serve(listener: socket.socket, late: list[str]) -> tuple[dict[str, Any], dict[str, str]]:
    """Answer clients for ever; returns, in each forked child, the request it has to carry out.

    With it come the environment variables that the imports have set.
    """
    added: dict[str, str] | None = None
    single_threaded = {name: os.environ[name] for name in SINGLE_THREADED if name in os.environ}
    children: dict[int, socket.socket] = {}
    poller = select.poll()
    poller.register(listener, select.POLLIN)
    wake_read, wake_write = (_moved(s) for s in socket.socketpair())
    wake_write.setblocking(False)
    poller.register(wake_read, select.POLLIN)
    signal.set_wakeup_fd(wake_write.fileno(), warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    while True:
        for descriptor, _ in poller.poll():
            if descriptor == wake_read.fileno():
                wake_read.recv(4096)
                _reap(children, poller)
            elif descriptor == listener.fileno():
                connection = _moved(listener.accept()[0])
                request = _read_request(connection)
                if request is None:
                    connection.close()
                    continue
                if added is None:
                    adopt(request["environment"], single_threaded)
                    added = preload(late)
                pid = os.fork()
                if pid == 0:
                    signal.set_wakeup_fd(-1)
                    for number in (signal.SIGCHLD, *ENDING):
                        signal.signal(number, signal.SIG_DFL)
                    faulthandler.disable()
                    for own in (listener, connection, wake_read, wake_write, *children.values()):
                        own.close()
                    return request, added
                for received in request["received"]:
                    os.close(received)
                children[pid] = connection
                poller.register(connection, select.POLLIN)
                _answer(connection, pid)
            else:  # a client was killed: so is what it stands for
                for pid, connection in children.items():
                    if connection.fileno() == descriptor:
                        poller.unregister(connection)
                        os.kill(pid, signal.SIGKILL)


def _reap(children: dict[int, socket.socket], poller: select.poll) -> None:
    while children:
        pid, status = os.waitpid(-1, os.WNOHANG)
        if pid == 0:
            return
        connection = children.pop(pid)
        _answer(connection, os.waitstatus_to_exitcode(status))
        with contextlib.suppress(KeyError):  # where its client was killed before
            poller.unregister(connection)
        connection.close()


def _answer(connection: socket.socket, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):  # where the client is gone; the poller tells, too
        connection.sendall(struct.pack("!i", number))


def _read_request(connection: socket.socket) -> dict[str, Any] | None:
    head, received, _, _ = socket.recv_fds(connection, LENGTH.size, 250)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    body = b""
    while len(body) < length:
        part = connection.recv(length - len(body))
        if not part:
            return None
        body += part
    return {**json.loads(body), "received": received}


def _join_group(group: int) -> None:
    """Stand in the process group of the client's family, or in a new one where the client began one.

    Ray gives each worker a group of its own and signals the whole group when it loses the worker. Children left
    in the server's group would all be hit, and the server too.
    """
    try:
        os.setpgid(0, group)  # started by another child of the server, whose group this is
    except PermissionError:  # a group outside the server's session
        os.setpgid(0, 0)


def become(request: dict[str, Any], added: dict[str, str]) -> None:
    """Turn this fresh child into the process that the client asked for, and run its program."""
    import fcntl

    gc.unfreeze()
    _join_group(request["group"])
    high = [fcntl.fcntl(received, fcntl.F_DUPFD_CLOEXEC, OWN_FILES) for received in request["received"]]
    for received in request["received"]:
        os.close(received)
    for source, target in zip(high, request["files"], strict=True):
        os.dup2(source, target)  # inheritable, as the client's was
        os.close(source)
    adopt(request["environment"], {k: v for k, v in added.items() if k not in request["environment"]})
    os.chdir(request["directory"])
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()  # a new process has a generator of its own
    if "torch" in sys.modules and (threads := request["environment"].get("OMP_NUM_THREADS")):
        sys.modules["torch"].set_num_threads(int(threads))  # it has read the server's own

    arguments = [*request["arguments"]]
    while arguments and arguments[0] in ("-u", "-E", "-I", "-s", "-S", "-B"):
        arguments.pop(0)
    if arguments[0] == "-c":
        code = arguments[1]
        sys.argv = ["-c", *arguments[2:]]
        sys.path[0] = ""
        exec(compile(code, "<string>", "exec"), sys.modules["__main__"].__dict__)
    elif arguments[0] == "-m":
        sys.argv = arguments[1:]
        sys.path[0] = os.getcwd()
        runpy.run_module(arguments[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = arguments
        sys.path[0] = str(Path(arguments[0]).resolve().parent)
        runpy.run_path(arguments[0], run_name="__main__")


if __name__ == "__main__":
    main()
