"""A library in child processes, with limits of time and memory that the kernel keeps.

verl scores in threads, where no alarm can be set, and twenty characters of an answer can lead a library to hours of
work or to all memory. So one helper process a worker and library imports the library and forks children that answer;
the kernel ends a child that uses too much processor time or memory, and the next request gets another. The helper
starts with the first request. Pools of multiprocessing, pebble's too, do not serve: they run the __main__ of the caller
again, which is Ray's worker, or a script without a guard.
"""

import gc
import importlib
import json
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
from multiprocessing.connection import Connection
from typing import Any

logger = logging.getLogger(__name__)

MAX_AT_ONCE = 4  # children of one worker and library; further calls wait their turn
CALLS_PER_CHILD = 200  # then a fresh one, so that the library's caches stay small
START_SECONDS = 120.0  # importing a library from a cold disk, on a busy machine
WALL_FACTOR = 10.0  # a child that waits for a busy processor is not at fault
SERVE = "import sys; from rpg.rewards.sandbox import serve; serve(sys.argv[1], int(sys.argv[2]))"
MEMORY_LIMIT = 1 << 30  # bytes of address space on top of what the helper itself maps


class Sandbox:
    """The helper and up to MAX_AT_ONCE children of this process, for one library. Safe in threads.

    Attributes:
        module: what the helper imports; its `answer(*request)` works in a child and returns what JSON holds, its
            `warm_up()` loads beforehand what the children then share.
        library: the library's name in messages.
        calls_per_child: requests that a child answers before another takes its place.
        calls, over_limit: how many requests there were, and how many were not answered within the limits.
    """

    def __init__(self, module: str, library: str, calls_per_child: int = CALLS_PER_CHILD) -> None:
        self.module, self.library, self.calls_per_child = module, library, calls_per_child
        self.calls = self.over_limit = 0
        self._begin()
        os.register_at_fork(after_in_child=self._begin)  # the helper is the parent's

    def _begin(self) -> None:
        self.lock = threading.Lock()
        self.helper: Helper | None = None
        self.children: queue.LifoQueue[Child | None] = queue.LifoQueue()
        for _ in range(MAX_AT_ONCE):
            self.children.put(None)

    def ask(self, *request: Any, time_limit: float) -> Any:
        """Return a child's answer, None where there is none within `time_limit` seconds of processor time.

        Ten times as much wall time is the end in any case. A child that is gone, or goes early (memory, a crash, a
        kill from outside), is replaced once.
        """
        self.calls += 1
        answer = None
        for may_be_used in (True, False):
            child = self.children.get()
            is_done = False
            try:
                if child is None or not may_be_used or child.calls >= self.calls_per_child:
                    if child is not None:
                        child.connection.close()
                    child = Child(self.running_helper())
                answer = child.ask(request, time_limit)
                is_done = True
            except ConnectionError as error:
                logger.info("%s: child lost: %s", self.library, error)
            finally:
                if child is not None and answer is None:
                    child.connection.close()
                    child = None
                self.children.put(child)
            if is_done:
                break
        self.over_limit += answer is None
        return answer

    def running_helper(self) -> "Helper":
        """Return the helper, starting it where there is none or it was killed from outside."""
        with self.lock:
            if self.helper is not None and self.helper.process.poll() is not None:
                logger.warning("the %s helper was killed from outside; starting another", self.library)
                self.helper.stop()
                self.helper = None
            if self.helper is None:
                self.helper = Helper(self.module, self.library)
            return self.helper


class Helper:
    """The process that holds the imported library, and our end of the socket to it."""

    def __init__(self, module: str, library: str) -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-c", SERVE, module, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
                stdin=subprocess.DEVNULL,
            )
        self.socket.settimeout(START_SECONDS)
        try:
            ready = self.socket.recv(16)
        except TimeoutError:
            self.stop()
            raise RuntimeError(f"{library} did not load within {START_SECONDS:.0f} s") from None
        if not ready:
            self.socket.close()
            raise RuntimeError(
                f"the {library} helper ended with exit code {self.process.wait()}; see its message above"
            )

    def stop(self) -> None:
        """End the helper and release its socket."""
        self.socket.close()
        self.process.kill()
        self.process.wait()


class Child:
    """Our end of the connection to one child; closing it ends the process."""

    def __init__(self, helper: Helper) -> None:
        ours, theirs = socket.socketpair()
        with ours, theirs:
            socket.send_fds(helper.socket, [b"fork"], [theirs.fileno()])
            self.connection = Connection(ours.detach())
        self.calls = 0

    def ask(self, request: tuple[Any, ...], time_limit: float) -> Any:
        """Send one request and return the answer, None where a limit ends it.

        Raises ConnectionError where the child was gone, or went before it can have used up its time.
        """
        self.calls += 1
        start = time.monotonic()
        self.connection.send_bytes(json.dumps([time_limit, *request]).encode())
        if not self.connection.poll(time_limit * WALL_FACTOR):
            return None
        try:
            return json.loads(self.connection.recv_bytes())
        except (EOFError, ConnectionError):
            if time.monotonic() - start < time_limit:
                raise ConnectionResetError("the child ended early") from None
            return None


def serve(module_name: str, descriptor: int) -> None:
    """In the helper: fork a child for every socket that is sent, until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    forks = socket.socket(fileno=descriptor)
    module = importlib.import_module(module_name)
    module.warm_up()
    gc.collect()
    gc.freeze()  # children share the helper's pages instead of copying them
    forks.send(b"ready")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries the children
    while True:
        data, descriptors, _, _ = socket.recv_fds(forks, 16, 1)
        if not data:
            return
        connection = Connection(descriptors[0])
        if os.fork() == 0:
            forks.close()
            try:
                answer_until_closed(connection, module.answer)
            finally:  # memory or recursion ran out: no answer, no traceback, no return to the loop
                os._exit(0)
        connection.close()


def answer_until_closed(connection: Connection, answer: Any) -> None:
    """In a child: answer requests; the kernel ends the process where one passes its limits."""
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    with open("/proc/self/statm") as statm:
        mapped = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY_LIMIT, mapped + MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # nothing that scores has a file to write
    while True:
        time_limit, *request = json.loads(connection.recv_bytes())
        signal.setitimer(signal.ITIMER_PROF, time_limit)
        reply = answer(*request)
        signal.setitimer(signal.ITIMER_PROF, 0)
        connection.send_bytes(json.dumps(reply).encode())
