"""math-verify behind a wall: in child processes, with limits that the kernel keeps.

verl scores in threads, where the library's own alarm cannot be set, and sympy can spend hours or all
memory on twenty characters. So one helper process per worker holds the imported library and forks
children that compare; the kernel ends a child that uses too much processor time or memory, and the next
comparison gets another. The helper starts with the first answer that needs it.
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
from dataclasses import dataclass

logger = logging.getLogger(__name__)

MAX_AT_ONCE = 4  # children of one worker; further calls wait their turn
CALLS_PER_CHILD = 200  # then a fresh one, so that sympy's caches stay small
START_SECONDS = 120.0  # importing sympy from a cold disk, on a busy machine
WALL_FACTOR = 10.0  # a child that waits for a busy processor is not at fault
PACKET = 65536  # bytes of a request that are sent at once; a whole response may be more


@dataclass
class Counts:
    """How many responses the library was asked about and how many it could not finish."""

    calls: int = 0
    over_limit: int = 0


class Child:
    """Our end of the socket to one comparing process; closing it ends the process."""

    def __init__(self, helper: "Helper") -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(helper.socket, [b"fork"], [theirs.fileno()])
        self.calls = 0

    def ask(self, truth: str, response: str, time_limit: float) -> str | None:
        """Send one request and wait for the reply, None where the kernel ends the child instead.

        The reply is symbolic_helper.judge_response's.

        Raises TimeoutError where the machine is so busy that neither came in ten times the limit, and
        ConnectionError where the child was gone, or went before it can have used up its time.
        """
        self.calls += 1
        self.socket.settimeout(time_limit * WALL_FACTOR)
        start = time.monotonic()
        request = json.dumps([truth, response, time_limit]).encode() + b"\n"
        for sent in range(0, len(request), PACKET):
            self.socket.send(request[sent : sent + PACKET])
        reply = self.socket.recv(PACKET)
        if not reply and time.monotonic() - start < time_limit:
            raise ConnectionResetError("the comparing process ended early")
        return reply.decode() if reply else None


class Helper:
    """The process that holds the imported library, and our end of the socket to it."""

    def __init__(self) -> None:
        self.socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-m", "rpg.rewards.symbolic_helper", str(theirs.fileno())]
            environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path)}
            self.process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL
            )
        self.socket.settimeout(START_SECONDS)
        try:
            ready = self.socket.recv(16)
        except TimeoutError:
            self.stop()
            raise RuntimeError(f"math-verify did not load within {START_SECONDS:.0f} s") from None
        if ready != b"ready":
            code = self.process.wait()
            self.socket.close()
            raise RuntimeError(f"the math-verify helper ended with exit code {code}; its message stands above")

    def stop(self) -> None:
        """End the helper and release its socket."""
        self.socket.close()
        self.process.kill()
        self.process.wait()


class Pool:
    """The helper and up to MAX_AT_ONCE children of this process."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.helper: Helper | None = None
        self.children: queue.LifoQueue[Child | None] = queue.LifoQueue()
        for _ in range(MAX_AT_ONCE):
            self.children.put(None)

    def running_helper(self) -> Helper:
        """Return the helper, starting it where there is none or it was killed from outside."""
        with self.lock:
            if self.helper is not None and self.helper.process.poll() is not None:
                logger.warning("the math-verify helper was killed from outside; starting another")
                self.helper.stop()
                self.helper = None
            if self.helper is None:
                self.helper = Helper()
            return self.helper

    def ask(self, truth: str, response: str, time_limit: float) -> str | None:
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
                reply = child.ask(truth, response, time_limit)
                return reply
            except ConnectionError as error:
                logger.info("comparing process lost: %s", error)
            finally:
                reusable = child is not None and reply is not None and child.calls < CALLS_PER_CHILD
                if child is not None and not reusable:
                    child.socket.close()
                self.children.put(child if reusable else None)
        return None


counts = Counts()
pool = Pool()


def _forget_pool() -> None:
    global pool
    pool = Pool()  # after a fork the old one is the parent's


os.register_at_fork(after_in_child=_forget_pool)


def judge_response(truth: str, response: str, time_limit: float) -> tuple[bool, str]:
    """What math-verify says of a whole response: whether it is right, and the text that it read as the answer.

    (False, "") where the library takes over `time_limit` seconds: processor time of the child, so that a busy
    machine does not change verdicts; ten times as much wall time is the end in any case. Safe in threads.
    """
    counts.calls += 1
    try:
        reply = pool.ask(truth, response, time_limit)
    except TimeoutError:
        reply = None
    if reply is None:
        counts.over_limit += 1
        logger.warning("response not judged within %.2f s: ...%r, truth %.80r", time_limit, response[-80:], truth)
        return False, ""
    return reply[0] == "1", reply[1:]
