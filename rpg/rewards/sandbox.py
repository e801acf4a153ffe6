"""Runs a library in child processes with the kernel's limits on time and memory.

verl scores in threads, where alarms do not work, and an answer of twenty characters can cost a library hours or all
memory. One helper process per worker and library therefore imports the library and forks children that answer
requests; the kernel kills a child that exceeds its processor time or memory, and the next request gets a new one. The
helper starts with the first request. A child answers many requests, because a fork per request takes five times the
processor time. Pools of multiprocessing and pebble do not work: they run the caller's __main__ again, which is Ray's
worker or a script without a guard.
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

MAX_AT_ONCE = 4  # children per worker and library; further calls wait
CALLS_PER_CHILD = 200  # then a new child: with full caches, a MemoryError in the library would become a wrong verdict
START_SECONDS = 120.0  # for the import from a cold disk on a busy machine
WALL_FACTOR = 10.0  # wall time / processor time, because a child may wait for a busy processor
SERVE = "import sys; from rpg.rewards.sandbox import serve; serve(sys.argv[1], int(sys.argv[2]))"
MEMORY_LIMIT = 1 << 30  # bytes of address space beyond the helper's


class Sandbox:
    """The helper of this process for one library, and up to MAX_AT_ONCE children of it. Thread-safe.

    The helper imports `module`, whose `answer(*request)` runs in a child and returns JSON types, and whose `warm_up()`
    builds caches that the children share. `over_limit` counts the requests without an answer.
    """

    def __init__(self, module: str, library: str) -> None:
        self.module, self.library = module, library
        self.over_limit = 0
        self._begin()
        os.register_at_fork(after_in_child=self._begin)  # the helper belongs to the parent

    def _begin(self) -> None:
        self.lock = threading.Lock()
        self.helper: subprocess.Popen[bytes] | None = None
        self.children: queue.LifoQueue[Child | None] = queue.LifoQueue()
        for _ in range(MAX_AT_ONCE):
            self.children.put(None)

    def ask(self, *request: Any, time_limit: float) -> Any:
        """Return a child's answer, or None if it takes more than `time_limit` seconds of processor time.

        The limit of wall time is ten times as long. A child that has ended, or ends early (memory, a crash, a kill from
        outside), is replaced once.
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
                    child = None  # the second time the request is the cause
        finally:
            self.children.put(None if answer is None else child)
        self.over_limit += answer is None
        return answer

    def fork_child(self) -> "Child":
        """Return a new child of the helper; start the helper if there is none or it was killed."""
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
    """The connection to one child, which ends when the connection is closed or garbage-collected."""

    calls = 0

    def ask(self, request: tuple[Any, ...], time_limit: float) -> Any:
        """Send one request and return the answer, or None if a limit ends the child.

        Raises ConnectionError if the child had ended, or ends before its time is used up.
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
    """Run the helper: fork a child for every received socket, until the connection closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles Ctrl-C
    forks = socket.socket(fileno=descriptor)
    module = importlib.import_module(module_name)
    module.warm_up()
    gc.collect()
    gc.freeze()  # children share the helper's pages instead of copying them
    with open("/proc/self/statm") as statm:
        mapped = int(statm.read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (mapped + MEMORY_LIMIT, mapped + MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))  # scoring writes no files
    forks.send(b"ready")
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the children
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
                finally:  # connection closed, out of memory or recursion: exit without a traceback
                    os._exit(0)
