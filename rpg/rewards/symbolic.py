"""math-verify behind a wall: every comparison in a process of its own, with a limit the kernel keeps.

verl scores in threads, where the library's own alarm cannot be set, and sympy can spend hours or all
memory on twenty characters. So one helper process per worker holds the imported library, forks a child
for each comparison, and the child's processor time and memory are limited by the kernel. Nothing a
response says can outlive its child. The helper starts with the first answer that needs it.
"""

import functools
import json
import logging
import os
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass

logger = logging.getLogger(__name__)

MAX_AT_ONCE = 4  # children of one worker; further calls wait their turn
START_SECONDS = 120.0  # importing sympy from a cold disk, on a busy machine
WALL_FACTOR = 10.0  # a child that waits for a busy processor is not at fault


@dataclass
class Counts:
    """How many comparisons the library was asked for and how many it could not finish."""

    calls: int = 0
    over_limit: int = 0


counts = Counts()
_lock = threading.Lock()
_slots = threading.BoundedSemaphore(MAX_AT_ONCE)
_helper: "Helper | None" = None


class TimeLimitExceeded(RuntimeError):
    """The library did not finish within the limit."""


class Helper:
    """The process that holds the imported library, and our end of the socket to it."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            command = [sys.executable, "-m", "rpg.rewards.symbolic_helper", str(theirs.fileno())]
            environment = {
                **os.environ,
                "PYTHONPATH": os.pathsep.join(path or os.getcwd() for path in sys.path),
            }
            self.process = subprocess.Popen(
                command, pass_fds=[theirs.fileno()], env=environment, stdin=subprocess.DEVNULL
            )
        self.socket = ours
        self.owner = os.getpid()
        ours.settimeout(START_SECONDS)
        try:
            ready = ours.recv(16)
        except TimeoutError:
            self.stop()
            raise RuntimeError(f"math-verify did not load within {START_SECONDS:.0f} s") from None
        if ready != b"ready":
            code = self.process.wait()
            ours.close()
            raise RuntimeError(f"the math-verify helper ended with exit code {code}; its message stands above")

    def stop(self) -> None:
        """End the helper and release its socket."""
        self.socket.close()
        self.process.kill()
        self.process.wait()

    def compare(self, truth: str, answer: str, time_limit: float) -> bool:
        """Send one comparison to a fresh child and wait for its verdict."""
        ours, theirs = socket.socketpair()
        with ours:
            with theirs:
                request = json.dumps([truth, answer, time_limit]).encode()
                socket.send_fds(self.socket, [request], [theirs.fileno()])
            ours.settimeout(time_limit * WALL_FACTOR)
            try:
                verdict = ours.recv(1)
            except TimeoutError:
                raise TimeLimitExceeded from None
        if verdict not in (b"0", b"1"):  # the kernel ended the child
            raise TimeLimitExceeded
        return verdict == b"1"


def is_equal(truth: str, answer: str, time_limit: float) -> bool:
    """Whether math-verify finds `answer` equal to `truth`; False where it takes over `time_limit` seconds.

    The limit is processor time of the child, so a busy machine does not change verdicts; ten times as
    much wall time is the end in any case. Safe in threads.
    """
    try:
        return _is_equal(truth, answer, time_limit)
    except TimeLimitExceeded:
        counts.over_limit += 1
        logger.warning("answer not compared within %.2f s: %.80r, truth %.80r", time_limit, answer, truth)
        return False


@functools.lru_cache(maxsize=4096)  # responses of one group often give one answer; texts have 200 characters
def _is_equal(truth: str, answer: str, time_limit: float) -> bool:
    counts.calls += 1
    with _slots:
        try:
            return running_helper().compare(truth, answer, time_limit)
        except (BrokenPipeError, ConnectionResetError):
            logger.warning("the math-verify helper was gone (killed from outside?); starting another")
            return running_helper(restart=True).compare(truth, answer, time_limit)


def running_helper(restart: bool = False) -> Helper:
    """Return this process's helper, starting it where there is none or `restart` asks for another."""
    global _helper
    with _lock:
        if _helper is not None and (restart and _helper.process.poll() is not None):
            _helper.stop()
            _helper = None
        if _helper is None or _helper.owner != os.getpid():  # after a fork it is our parent's
            _helper = Helper()
        return _helper
