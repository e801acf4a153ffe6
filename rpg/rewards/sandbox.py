"""Calls a function in child processes with limits on time and memory: a child a slot, killed and started anew.

verl scores in threads, where alarms do not work, and an answer of twenty characters can cost a library hours or all
memory, or hold Python's lock so that no other thread runs. Pools of multiprocessing do not work: they run the caller's
__main__ again, which is Ray's worker or a script without a guard.
"""

import contextlib
import fcntl
import importlib
import os
import queue
import resource
import signal
import socket
import subprocess
import sys
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from rpg.diagnostics import UserError

MAX_AT_ONCE = 4  # children of a process for each module; further calls wait
START_SECONDS = 600.0  # for the imports, from a cold disk on a busy machine
SERVE = "import sys; from rpg.rewards.sandbox import serve; serve(*sys.argv[1:])"
MEMORY = 2 << 30  # bytes
SHOWN = 1000  # characters of an exception's message


class Sandbox:
    """Up to MAX_AT_ONCE children of this process, started as needed. Thread-safe.

    A child imports `module` and calls its `warm_up(*arguments)`, if it has one, then `answer(*request)` for each call;
    request and answer are pickled. Calls may take MEMORY bytes beyond the imports, unless these set RLIMIT_DATA.
    """

    def __init__(self, module: str, *arguments: str) -> None:
        self.module, self.arguments = module, arguments
        self.stop()

    def stop(self) -> None:
        """Let go of the children, which then end. The next call starts others."""
        self.owner = os.getpid()
        self.slots: queue.LifoQueue[Child | None] = queue.LifoQueue()
        for _ in range(MAX_AT_ONCE):
            self.slots.put(None)

    def call(self, *request: Any, limit: float | None = None) -> Any:
        """Return a child's answer; without a request, only start a child if there is none.

        limit: seconds, without the wait for a child and its start.

        Raises:
            TimeoutError: the limit is exceeded.
            ConnectionError: the child ended.
            RuntimeError: the function or its import raised; with the message.
        """
        if self.owner != os.getpid():  # after a fork: the children are the parent's
            self.stop()
        slots, child, alive = self.slots, self.slots.get(), None
        try:
            if child is None or child.process.poll() is not None:
                child = Child(self.module, self.arguments)
            answer, error = child.ask("answer", request, limit) if request else (None, "")
            alive = child
        finally:
            slots.put(alive)
        if error:
            raise RuntimeError(error)
        return answer


class Child:
    """One process and this end of its pipe. It ends when this object or process ends."""

    def __init__(self, module: str, arguments: tuple[str, ...]) -> None:
        # an editable installation puts this package on no path
        path = os.pathsep.join([*filter(None, sys.path), str(Path(__file__).parents[2])])
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-u", "-P", "-c", SERVE, str(theirs.fileno()), module],
                pass_fds=[theirs.fileno()],
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": path},  # several share the processors
                stdin=subprocess.PIPE,  # closed when this process ends
                start_new_session=True,
            )
        self.pipe = Connection(ours.detach())
        if error := self.ask("warm_up", arguments, START_SECONDS)[1]:
            self.kill()
            raise RuntimeError(error)

    def ask(self, function: str, arguments: tuple[Any, ...], limit: float | None) -> tuple[Any, str]:
        """Return the function's value and "", or None and the message of its exception."""
        try:
            self.pipe.send((function, arguments))
            if self.pipe.poll(limit):
                return self.pipe.recv()
            failure = TimeoutError()
        except (EOFError, ConnectionError):
            failure = ConnectionError("its process ended (killed, out of memory, os._exit)")
        self.kill()
        raise failure

    def kill(self) -> None:
        """End the process with those that it started."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.communicate()


def serve(descriptor: str, module: str) -> None:
    """Answer requests in a child, until the connection closes."""
    _end_with_parent()
    pipe, process = Connection(int(descriptor)), os.getpid()
    try:
        while True:
            function, arguments = pipe.recv()
            try:
                called = getattr(importlib.import_module(module), function, None)
                reply = called(*arguments) if called else None, ""
                limit_memory()
            except BaseException as error:  # noqa: BLE001  # whatever a user's function raises, also SystemExit
                reply = None, described(error)
            if os.getpid() != process:  # a function that forks returns, or raises, in its child, too
                os._exit(0)
            pipe.send(reply)
    finally:  # connection closed, out of memory or recursion: end without a traceback, with the started processes
        os.killpg(0, signal.SIGKILL)


def _end_with_parent() -> None:
    """Let the kernel end this process group when the parent closes its end of stdin, also inside a call."""
    lifeline = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC)  # SIGIO, which ends a process


def described(error: BaseException) -> str:
    """Return type, message and place (the last line in the user's file, else the last) of an exception.

    The message may hold a whole response, and its __str__ may raise.
    """
    if isinstance(error, UserError):
        return str(error)
    message = "".join(traceback.format_exception_only(error)).strip()
    message = message if len(message) <= SHOWN else f"{message[:SHOWN]}... ({len(message)} characters)"
    frames = traceback.extract_tb(error.__traceback__)
    place = ([frame for frame in frames if frame.filename == sys.argv[0]] or frames)[-1]
    return f"{message} ({place.filename}, line {place.lineno})"


def limit_memory() -> None:
    """Limit this process's private memory to what it holds now and MEMORY, unless it has a limit."""
    limits = resource.getrlimit(resource.RLIMIT_DATA)
    if limits[0] == resource.RLIM_INFINITY:
        held = int(Path("/proc/self/statm").read_text().split()[5]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_DATA, (held + MEMORY, limits[1]))
