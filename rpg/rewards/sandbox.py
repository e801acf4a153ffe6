"""A library in child processes, with limits of time and memory that the kernel keeps.

verl scores in threads, where no alarm can be set, and twenty characters of an answer can lead a library to hours of
work or to all memory. So one helper process per worker and library imports the library and forks children that answer;
the kernel ends a child that uses too much processor time or memory, and the next request gets another. The helper
starts with the first request. A child answers many requests: a fork per request takes five times the processor time.
Pools of multiprocessing and pebble do not serve: they run the __main__ of the caller again, which is Ray's worker, or
a script without a guard.
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

MAX_AT_ONCE = 4  # children of one worker and library; further calls wait for their turn
CALLS_PER_CHILD = 200  # then a fresh one: a full cache would make a library's own MemoryError a wrong verdict
START_SECONDS = 120.0  # importing a library from a cold disk, on a busy machine
WALL_FACTOR = 10.0  # a child that waits for a busy processor is not at fault
SERVE = "import sys; from rpg.rewards.sandbox import serve; serve(sys.argv[1], int(sys.argv[2]))"
MEMORY_LIMIT = 1 << 30  # bytes of address space on top of what the helper itself maps


class Sandbox:
    """The helper of this process for one library, and up to MAX_AT_ONCE children of it. Thread-safe.

    The helper imports `module`; its `answer(*request)` works in a child and returns what JSON holds, its `warm_up()`
    loads beforehand what the children then share. `over_limit` counts the requests without an answer.
    """

    def __init__(self, module: str, library: str) -> None:
        self.module, self.library = module, library
        self.over_limit = 0
        self._begin()
        os.register_at_fork(after_in_child=self._begin)  # the helper is the parent's

    def _begin(self) -> None:
        self.lock = threading.Lock()
        self.helper: subprocess.Popen[bytes] | None = None
        self.children: queue.LifoQueue[Child | None] = queue.LifoQueue()
        for _ in range(MAX_AT_ONCE):
            self.children.put(None)

    def ask(self, *request: Any, time_limit: float) -> Any:
        """Return a child's answer, None where there is none within `time_limit` seconds of processor time.

        Ten times as much wall time is the end in any case. A child that is gone, or ends early (memory, a crash, a
        kill from outside), is replaced once.
        """
        child, answer = self.children.get(), None
        try:
            for _ in range(2):
                try:
                    if child is None or child.calls >= CALLS_PER_CHILD:
                        child = self.fork_child()
                    answer = child.ask(request, time_limit)
                    break
                except ConnectionError:
                    child = None  # the second time it is the request's fault
        finally:
            self.children.put(None if answer is None else child)
        self.over_limit += answer is None
        return answer

    def fork_child(self) -> "Child":
        """Return a new child of the helper, which is started where there is none or it was killed from outside."""
        ours, theirs = socket.socketpair()
        with self.lock, theirs:
            if self.helper is not None and self.helper.poll() is not None:
                logger.warning("the %s helper was killed from outside; starting another", self.library)
                self.socket.close()
                self.helper = None
            if self.helper is None:
                self._start_helper()
            socket.send_fds(self.socket, [b"fork"], [theirs.fileno()])
        return Child(ours.detach())

    def _start_helper(self) -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            helper = subprocess.Popen(
                [sys.executable, "-c", SERVE, self.module, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                env={**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)},
                stdin=subprocess.DEVNULL,
            )
        self.socket.settimeout(START_SECONDS)
        try:
            is_ready = bool(self.socket.recv(16))
        except TimeoutError:
            helper.kill()
            helper.wait()
            raise RuntimeError(f"{self.library} did not load within {START_SECONDS:.0f} s") from None
        if not is_ready:
            raise RuntimeError(f"the {self.library} helper ended with exit code {helper.wait()}; see its message above")
        self.helper = helper


class Child(Connection):
    """Our end of the connection to one child, which ends when the connection is closed or collected."""

    calls = 0

    def ask(self, request: tuple[Any, ...], time_limit: float) -> Any:
        """Send one request and return the answer, None where a limit ends it.

        Raises ConnectionError where the child was gone, or ended before it can have used up its time.
        """
        self.calls += 1
        start = time.monotonic()
        self.send_bytes(json.dumps([time_limit, *request]).encode())
        if not self.poll(time_limit * WALL_FACTOR):
            return None
        try:
            return json.loads(self.recv_bytes())
        except (EOFError, ConnectionError):
            if time.monotonic() - start < time_limit:
                raise ConnectionResetError("the child ended early") from None
            return None


def serve(module_name: str, descriptor: int) -> None:
    """In the helper: fork a child for every socket that is sent, until the other end closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the parent's to handle
    forks = socket.socket(fileno=descriptor)
    module = importlib.import_module(module_name)
    module.warm_up()
    gc.collect()
    gc.freeze()  # children share the helper's pages instead of copying them
    with open("/proc/self/statm") as statm:
        mapped = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY_LIMIT, mapped + MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # nothing that scores has a file to write
    forks.send(b"ready")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel buries the children
    signal.signal(signal.SIGPROF, signal.SIG_DFL)
    while True:
        data, descriptors, _, _ = socket.recv_fds(forks, 16, 1)
        if not data:
            return
        with Connection(descriptors[0]) as connection:
            if os.fork() == 0:
                forks.close()
                try:
                    while True:
                        time_limit, *request = json.loads(connection.recv_bytes())
                        signal.setitimer(signal.ITIMER_PROF, time_limit)
                        reply = module.answer(*request)
                        signal.setitimer(signal.ITIMER_PROF, 0)
                        connection.send_bytes(json.dumps(reply).encode())
                finally:  # closed, or memory or recursion ran out: no traceback, no return to the loop
                    os._exit(0)
