"""Commands that run beside this process, end with it, and get its signals."""

import ctypes
import os
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType

from rpg.launching.signals import ENDS

PR_SET_PDEATHSIG = 1


class Children:
    """Commands, each in a process group of its own, their output in a file.

    A terminal's Ctrl-C reaches this process alone, which hands it on once (`forwarding`). Where this process is killed
    the kernel sends each command SIGTERM: to those of the thread that started them, so start them from the main one.

    stopped: the signal that came, None while none did.
    """

    def __init__(self) -> None:
        self.stopped: signal.Signals | None = None
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, command: list[str], log: Path | None = None) -> subprocess.Popen[bytes]:
        """Start a command; what it prints is added to log, or goes where this process prints."""
        parent, libc = os.getpid(), ctypes.CDLL(None, use_errno=True)

        def end_with_parent() -> None:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
            if os.getppid() != parent:  # it was killed before the kernel was told
                os._exit(ENDS[signal.SIGTERM])

        with open(log, "ab") if log else nullcontext() as stream:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT if log else None,
                process_group=0, preexec_fn=end_with_parent,
            )  # fmt: skip
        self._processes.append(process)
        if self.stopped:  # it came while the command was started
            self._send(process, self.stopped)
        return process

    @contextmanager
    def forwarding(self) -> Iterator[None]:
        """While in this context a signal that would end this process goes to the commands, and is kept in `stopped`.

        One that is ignored, as SIGINT in a script's background and SIGHUP under nohup, stays so.
        """
        before = {number: signal.getsignal(number) for number in ENDS}
        for number, handler in before.items():
            if handler is not signal.SIG_IGN:
                signal.signal(number, self._forward)
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _forward(self, number: int, frame: FrameType | None) -> None:
        self.stopped = signal.Signals(number)
        for process in self._processes:
            self._send(process, number)

    @staticmethod
    def _send(process: subprocess.Popen[bytes], number: int) -> None:
        if process.poll() is None:
            process.send_signal(number)


def call(command: list[str]) -> int:
    """Run a launch script on this terminal; its exit code, as a shell gives it. A signal goes to the script."""
    children = Children()
    with children.forwarding():
        return exit_code(children.start(command).wait())


def exit_code(returncode: int) -> int:
    """As a shell gives it."""
    return returncode if returncode >= 0 else 128 - returncode
