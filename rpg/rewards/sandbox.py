"""Runs a library or a user's reward in the main thread of child processes, with limits on time and memory.

verl scores in threads, where alarms do not work, and an answer of twenty characters can cost a library hours or all
memory, or hold Python's lock so that no other thread runs. One helper process per worker and library therefore imports
the library and forks children that answer requests; a child that exceeds a limit is killed, and the next request gets a
new one. The helper starts with the first request. A child answers many requests, because a fork per request takes five
times the processor time. Pools of multiprocessing and pebble do not work: they run the caller's __main__ again, which
is Ray's worker or a script without a guard.
"""

import contextlib
import ctypes
import gc
import importlib
import logging
import os
import queue
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

logger = logging.getLogger(__name__)

MAX_AT_ONCE = 4  # children per worker and library; further calls wait
CALLS_PER_CHILD = 200  # then a new child: with full caches, a MemoryError in the library would become a wrong verdict
START_SECONDS = 120.0  # for the import from a cold disk on a busy machine
WALL_FACTOR = 10.0  # wall time / processor time, because a child may wait for a busy processor
SERVE = "import sys; from rpg.rewards.sandbox import serve; serve(*sys.argv[1:])"
READY = b"ready"
MESSAGE = 10_000  # bytes of the message of a helper that could not start
SHOWN = 1000  # characters of an exception's message
PR_SET_PDEATHSIG = 1
# a fork hangs in OpenMP if its parent has used several threads; up to 16 children share the processors
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
MEMORY_LIMIT = 1 << 30  # bytes of address space beyond the helper's


class Sandbox:
    """The helper of this process for one library, and up to `at_once` children of it. Thread-safe.

    The helper imports `module` and calls its `warm_up(*arguments)`, which loads what the children share. Its
    `answer(*request)` runs in a child; request and answer are pickled.
    """

    def __init__(
        self,
        module: str,
        library: str,
        *arguments: str,
        at_once: int = MAX_AT_ONCE,
        calls_per_child: float = CALLS_PER_CHILD,
        start_seconds: float = START_SECONDS,
    ) -> None:
        self.module, self.library, self.arguments = module, library, arguments
        self.at_once, self.calls_per_child, self.start_seconds = at_once, calls_per_child, start_seconds
        self._begin()
        os.register_at_fork(after_in_child=self._begin)  # the helper belongs to the parent

    def _begin(self) -> None:
        self.lock = threading.Lock()
        self.helper: subprocess.Popen[bytes] | None = None
        self.children: queue.LifoQueue[Child | None] = queue.LifoQueue()
        for _ in range(self.at_once):
            self.children.put(None)

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
            RuntimeError: the helper did not start; the message says why.
        """
        child, is_usable = self.children.get(), False
        try:
            for attempt in range(2):
                try:
                    if child is None or child.calls >= self.calls_per_child:
                        child = self.fork_child()
                    answer = child.ask(request, wall_time, processor_time)
                    is_usable = True
                    return answer
                except ConnectionError:
                    child = None
                    if attempt:  # the request is the cause
                        raise
        finally:
            self.children.put(child if is_usable else None)

    def fork_child(self) -> "Child":
        """Return a new child of the helper; start the helper if there is none or it was killed."""
        ours, theirs = socket.socketpair()
        with theirs:
            self.start(theirs)
        return Child(ours.detach())

    def start(self, child: socket.socket | None = None) -> None:
        """Start the helper if it does not run; let it fork a child at this end of a socket pair.

        Raises RuntimeError if the helper does not start.
        """
        with self.lock:
            if self.helper is not None and self.helper.poll() is not None:
                logger.warning("the %s helper was killed from outside; starting another", self.library)
                self.socket.close()
                self.helper = None
            if self.helper is None:
                self._start_helper()
            if child is not None:
                socket.send_fds(self.socket, [b"fork"], [child.fileno()])

    def stop(self) -> None:
        """End the helper and its children. The next request starts another."""
        with self.lock:
            if self.helper is not None:
                self.socket.close()
                self.helper.wait()
        self._begin()

    def _start_helper(self) -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            helper = subprocess.Popen(
                [sys.executable, "-P", "-c", SERVE, str(theirs.fileno()), self.module, *self.arguments],
                pass_fds=[theirs.fileno()],
                env={**os.environ, **ONE_THREAD, "PYTHONPATH": os.pathsep.join(_search_path())},
                stdin=subprocess.DEVNULL,
            )
        self.socket.settimeout(self.start_seconds)
        try:
            message = self.socket.recv(MESSAGE)
        except BaseException as error:
            helper.kill()
            helper.wait()
            if isinstance(error, TimeoutError):
                raise RuntimeError(f"{self.library} did not load within {self.start_seconds:.0f} s") from None
            raise
        if message != READY:
            status = helper.wait()
            raise RuntimeError(message.decode() or f"the {self.library} helper ended with exit code {status}")
        self.helper = helper


def _search_path() -> list[str]:
    """Return this process's search path with the working directory, where any file may shadow a module, at its end.

    The folder of this package precedes it: an editable installation puts that on no path, and rpg.py would win.
    """
    here, package = os.getcwd(), str(Path(__file__).parents[2])
    return [*(path for path in sys.path if path not in ("", here)), package, here]


class Child(Connection):
    """The connection to one child, which ends when the connection is closed or garbage-collected."""

    calls = 0
    pid = 0

    def ask(self, request: tuple[Any, ...], wall_time: float | None, processor_time: float) -> Any:
        """Send one request and return the answer.

        Raises TimeoutError if a limit ends the child, ConnectionError if it ends before.
        """
        self.calls += 1
        start = time.monotonic()
        try:
            if not self.pid:
                self.pid = self.recv()
            self.send((processor_time, request))
            if not self.poll(wall_time):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(self.pid, signal.SIGKILL)
                raise TimeoutError
            return self.recv()
        except (EOFError, ConnectionError):
            if processor_time and time.monotonic() - start >= processor_time:
                raise TimeoutError from None
            raise ConnectionResetError("the child ended early") from None


def serve(descriptor: str, module_name: str, *arguments: str) -> None:
    """Run the helper: fork a child for every received socket, until the connection closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    forks = socket.socket(fileno=int(descriptor))
    try:
        with _ending_with_parent():
            module = importlib.import_module(module_name)
            module.warm_up(*arguments)
    except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever a library raises; the parent reports it
        frames = traceback.extract_tb(error.__traceback__)
        place = ([frame for frame in frames if frame.filename in arguments] or frames)[-1]
        where = f"({place.filename}, line {place.lineno})"
        forks.send(f"{said(error)} {where}".encode(errors="replace")[:MESSAGE])
        sys.exit(1)
    if others := threading.active_count() - 1:
        print(f"warning: {' '.join(arguments)}: its import started {others} threads, which its calls do not have",
              file=sys.stderr, flush=True)  # fmt: skip
    gc.collect()
    gc.freeze()  # children share the helper's pages instead of copying them
    forks.send(READY)
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the children
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    children: list[int] = []
    while True:
        data, descriptors, _, _ = socket.recv_fds(forks, 16, 1)
        if not data:
            break
        with Connection(descriptors[0]) as connection:
            children.append(os.fork())
            if children[-1] == 0:
                forks.close()
                _answer(module, connection)
    for child in children:  # with the processes that they started
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(child, signal.SIGKILL)
    os._exit(0)  # also if the library's threads go on


def said(error: BaseException) -> str:
    """Return the type and the message, cut, of an exception that a library or a user's code raised.

    The message may hold a whole response, and its __str__ may raise.
    """
    try:
        message = str(error)
    except BaseException as raised:  # noqa: BLE001
        message = f"its __str__ raised {type(raised).__name__}"
    return f"{type(error).__name__}: {cut(message)}"


def cut(text: str) -> str:
    """Return the first SHOWN characters of a message, and how many follow."""
    return text if len(text) <= SHOWN else f"{text[:SHOWN]}... ({len(text) - SHOWN} more characters)"


@contextlib.contextmanager
def _ending_with_parent() -> Iterator[None]:
    """End this process if its parent ends meanwhile: an import may take for ever. No thread of this is left."""
    done, parent = threading.Event(), os.getppid()

    def watch() -> None:
        while not done.wait(1.0):
            if os.getppid() != parent:
                os._exit(1)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()


def _answer(module: Any, connection: Connection) -> None:
    """Answer requests in a child, until the connection closes."""
    try:
        os.setpgrp()  # killed with the processes that it starts
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)  # also inside a call
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        process = os.getpid()
        connection.send(process)
        while True:
            processor_time, request = connection.recv()
            signal.setitimer(signal.ITIMER_PROF, processor_time)
            reply = module.answer(*request)
            if os.getpid() != process:  # a function that forks has returned in its child, too
                os._exit(0)
            signal.setitimer(signal.ITIMER_PROF, 0)
            connection.send(reply)
    finally:  # connection closed, out of memory or recursion: end without a traceback, with the started processes
        os.killpg(0, signal.SIGKILL)


def limit_resources() -> None:
    """Limit the memory of the helper's children, and let them write no files."""
    with open("/proc/self/statm") as statm:
        mapped = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY_LIMIT, mapped + MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
