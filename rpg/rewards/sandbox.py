"""Calls a library or a user's reward in the main thread of child processes, with limits on time and memory.

verl scores in threads, where alarms do not work, and an answer of twenty characters can cost a library hours or all
memory, or hold Python's lock so that no other thread runs. A child that exceeds a limit is killed, and the next call
starts another. Pools of multiprocessing and pebble do not work: they run the caller's __main__ again, which is Ray's
worker or a script without a guard.
"""

import contextlib
import fcntl
import importlib
import os
import queue
import resource
import select
import signal
import socket
import subprocess
import sys
import traceback
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from rpg.diagnostics import UserError

MAX_AT_ONCE = 4  # children per worker and library; further calls wait
START_SECONDS = 120.0  # for the import from a cold disk on a busy machine
WALL_FACTOR = 10.0  # wall time / processor time, because a child may wait for a busy processor
SERVE = "import sys; from rpg.rewards.sandbox import serve; serve(*sys.argv[1:])"
SHOWN = 1000  # characters of an exception's message
MEMORY_LIMIT = 1 << 30  # bytes of address space beyond what the imports take


class Sandbox:
    """Up to MAX_AT_ONCE children of this process, started as needed. Thread-safe.

    A child imports `module` and calls its `warm_up(*arguments)`, then its `answer(*request)` for each call; request and
    answer are pickled.
    """

    def __init__(self, module: str, *arguments: str, start_seconds: float = START_SECONDS) -> None:
        self.setup, self.start_seconds = (module, *arguments), start_seconds
        self._begin()
        os.register_at_fork(after_in_child=self._begin)  # the children belong to the parent

    def _begin(self) -> None:
        self.slots: queue.LifoQueue[Child | None] = queue.LifoQueue()
        for _ in range(MAX_AT_ONCE):
            self.slots.put(None)

    def ask(self, *request: Any, time_limit: float) -> Any:
        """Return a child's answer, or None if it takes more than `time_limit` seconds of processor time.

        The limit of wall time is ten times as long. None also for a request that ends its child twice.
        """
        try:
            return self.call(request, WALL_FACTOR * time_limit, processor_time=time_limit)
        except (TimeoutError, ConnectionError):
            return None

    def call(self, request: tuple[Any, ...], wall_time: float | None, processor_time: float = 0) -> Any:
        """Return a child's answer. A child that has ended or ends early (memory, a crash, a kill) is replaced once.

        wall_time, processor_time: limits in seconds, without the wait for a child; None or 0: no limit.

        Raises:
            TimeoutError: a limit is exceeded.
            ConnectionError: the request ended two children.
            RuntimeError: a child did not start; the message says why.
        """
        child = self.slots.get()
        try:
            for attempt in range(2):
                try:
                    child = child or Child(self.setup, self.start_seconds)
                    return child.ask(request, wall_time, processor_time)
                except BaseException as error:
                    if child is not None:
                        child.kill()
                    child = None
                    if attempt or not isinstance(error, ConnectionError):  # the request is the cause
                        raise
        finally:
            self.slots.put(child)

    def start(self) -> None:
        """Start a child if there is none. Raises RuntimeError if that fails."""
        child = self.slots.get()
        try:
            child = child or Child(self.setup, self.start_seconds)
        finally:
            self.slots.put(child)

    def stop(self) -> None:
        """Wait for the calls, and end the children. The next call starts others."""
        for child in [self.slots.get() for _ in range(MAX_AT_ONCE)]:
            if child is not None:
                child.kill()
            self.slots.put(None)


class Child:
    """One process and this end of its pipe. It ends when this process ends."""

    def __init__(self, setup: tuple[str, ...], start_seconds: float) -> None:
        ours, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-u", "-P", "-c", SERVE, str(theirs.fileno()), *setup],
                pass_fds=[theirs.fileno()],
                # up to 16 children share the processors
                env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(_search_path())},
                stdin=subprocess.PIPE,  # closed when this process ends
                start_new_session=True,
            )
        self.pipe = Connection(ours.detach())
        try:
            failure = self._receive(start_seconds)
        except TimeoutError:
            failure = f"did not load within {start_seconds:.0f} s"
        except ConnectionError:
            failure = f"its process ended with exit code {self.process.returncode} at the start"
        if failure:
            self.kill()
            raise RuntimeError(failure)

    def ask(self, request: tuple[Any, ...], wall_time: float | None, processor_time: float) -> Any:
        """Send one request and return the answer.

        Raises TimeoutError if a limit is exceeded, ConnectionError if the child ends before.
        """
        with contextlib.suppress(ConnectionError):  # `_receive` says how the child ended
            self.pipe.send((processor_time, request))
        return self._receive(wall_time)

    def _receive(self, seconds: float | None) -> Any:
        try:
            if self.pipe.poll(seconds):
                return self.pipe.recv()
        except (EOFError, ConnectionError):
            self.kill()
            if self.process.returncode != -signal.SIGPROF:  # the limit of processor time
                raise ConnectionResetError("the child ended early") from None
        raise TimeoutError

    def kill(self) -> None:
        """End the process with those that it started."""
        if self.process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()


def _search_path() -> list[str]:
    """Return this process's search path with the working directory, where any file may shadow a module, at its end.

    The folder of this package precedes it: an editable installation puts that on no path, and rpg.py would win.
    """
    here, package = os.getcwd(), str(Path(__file__).parents[2])
    return [*(path for path in sys.path if path not in ("", here)), package, here]


def serve(descriptor: str, module_name: str, *arguments: str) -> None:
    """Answer requests in a child, until the connection closes."""
    _end_with_parent()
    pipe, process = Connection(int(descriptor)), os.getpid()
    try:
        try:
            module = importlib.import_module(module_name)
            module.warm_up(*arguments)
        except Exception as error:  # noqa: BLE001  # whatever a library raises; the parent reports it
            pipe.send(cut(str(error)) if isinstance(error, UserError) else described(error))
            return
        pipe.send("")
        signal.signal(signal.SIGPROF, signal.SIG_DFL)
        while True:
            processor_time, request = pipe.recv()
            signal.setitimer(signal.ITIMER_PROF, processor_time)
            reply = module.answer(*request)
            if os.getpid() != process:  # a function that forks has returned in its child, too
                os._exit(0)
            signal.setitimer(signal.ITIMER_PROF, 0)
            pipe.send(reply)
    finally:  # connection closed, out of memory or recursion: end without a traceback, with the started processes
        os.killpg(0, signal.SIGKILL)


def _end_with_parent() -> None:
    """Let the kernel end this process group when the parent closes its end of stdin, also inside a call."""
    lifeline = os.dup(0)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    fcntl.fcntl(lifeline, fcntl.F_SETOWN, -os.getpgrp())
    fcntl.fcntl(lifeline, fcntl.F_SETFL, os.O_ASYNC)  # SIGIO, which ends a process
    if select.select([lifeline], [], [], 0)[0]:  # it has closed it already
        sys.exit(1)


def described(error: BaseException, file: str = "") -> str:
    """Return type, message and place (the last line in `file`, else the last) of an exception of the user's code.

    The message may hold a whole response, and its __str__ may raise.
    """
    try:
        message = str(error)
    except BaseException as raised:  # noqa: BLE001
        message = f"its __str__ raised {type(raised).__name__}"
    frames = traceback.extract_tb(error.__traceback__)
    place = ([frame for frame in frames if frame.filename == file] or frames)[-1]
    return f"{type(error).__name__}: {cut(message)} ({place.filename}, line {place.lineno})"


def cut(text: str) -> str:
    """Return the first SHOWN characters of a message, and how many follow."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text) - SHOWN} more characters)"


def limit_resources() -> None:
    """Limit the memory of this process, and let it write no files."""
    limit = mapped() + MEMORY_LIMIT
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def mapped() -> int:
    """Return the bytes of this process's address space."""
    with open("/proc/self/statm") as statm:
        return int(statm.read().split()[0]) * resource.getpagesize()
