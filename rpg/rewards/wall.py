"""Libraries behind a wall: in child processes, with limits that the kernel keeps.

verl scores in threads, where no alarm can be set, and what a library is led to by twenty characters may take hours
or all memory. So one helper process per worker and library holds the imported library (wall_helper.py) and forks
children that answer; the kernel ends a child that uses too much processor time or memory, and the next request gets
another. The helper starts with the first request.
"""

import json
import logging
import os
import queue
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

logger = logging.getLogger(__name__)

MAX_AT_ONCE = 4  # children of one worker and library; further calls wait their turn
CALLS_PER_CHILD = 200  # then a fresh one, so that the library's caches stay small
START_SECONDS = 120.0  # importing a library from a cold disk, on a busy machine
WALL_FACTOR = 10.0  # a child that waits for a busy processor is not at fault
PACKET = 65536  # bytes of a request that are sent at once; a whole response may be more


@dataclass
class Counts:
    """How many requests the library was given and how many it could not finish."""

    calls: int = 0
    over_limit: int = 0


class Child:
    """Our end of the socket to one child; closing it ends the process."""

    def __init__(self, helper: "Helper") -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(helper.socket, [b"fork"], [theirs.fileno()])
        self.calls = 0

    def ask(self, request: Sequence[Any], time_limit: float) -> str | None:
        """Send one request and wait for the helper's reply, None where the kernel ends the child instead.

        Raises TimeoutError where the machine is so busy that neither came in ten times the limit, and
        ConnectionError where the child was gone, or went before it can have used up its time.
        """
        self.calls += 1
        self.socket.settimeout(time_limit * WALL_FACTOR)
        start = time.monotonic()
        line = json.dumps([time_limit, *request]).encode() + b"\n"
        for sent in range(0, len(line), PACKET):
            self.socket.send(line[sent : sent + PACKET])
        reply = self.socket.recv(PACKET)
        if not reply and time.monotonic() - start < time_limit:
            raise ConnectionResetError("the child ended early")
        return reply.decode() if reply else None


class Helper:
    """The process that holds the imported library, and our end of the socket to it."""

    def __init__(self, module: str, library: str) -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-m", module, str(theirs.fileno())]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
            self.process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL
            )
        self.socket.settimeout(START_SECONDS)
        try:
            ready = self.socket.recv(16)
        except TimeoutError:
            self.stop()
            raise RuntimeError(f"{library} did not load within {START_SECONDS:.0f} s") from None
        if ready != b"ready":
            code = self.process.wait()
            self.socket.close()
            raise RuntimeError(f"the {library} helper ended with exit code {code}; its message stands above")

    def stop(self) -> None:
        """End the helper and release its socket."""
        self.socket.close()
        self.process.kill()
        self.process.wait()


class Pool:
    """The helper and up to MAX_AT_ONCE children of this process, for one library.

    module: the helper's (wall_helper.serve in its main); library: its name in messages;
    calls_per_child: requests that a child answers before another takes its place.
    """

    def __init__(self, module: str, library: str, calls_per_child: int = CALLS_PER_CHILD) -> None:
        self.module, self.library, self.calls_per_child = module, library, calls_per_child
        self._begin()
        os.register_at_fork(after_in_child=self._begin)  # the helper is the parent's

    def _begin(self) -> None:
        self.lock = threading.Lock()
        self.helper: Helper | None = None
        self.children: queue.LifoQueue[Child | None] = queue.LifoQueue()
        for _ in range(MAX_AT_ONCE):
            self.children.put(None)

    def running_helper(self) -> Helper:
        """Return the helper, starting it where there is none or it was killed from outside."""
        with self.lock:
            if self.helper is not None and self.helper.process.poll() is not None:
                logger.warning("the %s helper was killed from outside; starting another", self.library)
                self.helper.stop()
                self.helper = None
            if self.helper is None:
                self.helper = Helper(self.module, self.library)
            return self.helper

    def ask(self, request: Sequence[Any], time_limit: float) -> str | None:
        """Ask a free child, or a new one; a child that fails is not used again.

        One that is gone, or goes early (memory, a crash, a kill from outside), is replaced once.
        """
        for fresh in (False, True):
            child, reply = self.children.get(), None
            try:
                if child is not None and fresh:
                    child.socket.close()
                    child = None
                child = child or Child(self.running_helper())
                reply = child.ask(request, time_limit)
                return reply
            except ConnectionError as error:
                logger.info("%s: child lost: %s", self.library, error)
            finally:
                reusable = child is not None and reply is not None and child.calls < self.calls_per_child
                if child is not None and not reusable:
                    child.socket.close()
                self.children.put(child if reusable else None)
        return None
