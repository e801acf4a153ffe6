"""Child commands that end with this process and get its signals; paths as a terminal shows them."""

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from types import FrameType

from rpg.run.signals import ENDS

PR_SET_PDEATHSIG = 1


class Children:
    """Commands, each in its own process group.

    A terminal's Ctrl-C reaches only this process, which forwards it once (`forwarding`). If this process is killed, the
    kernel sends SIGTERM to the commands that the ended thread started: start them from the main thread.

    stopped: the received signal, or None.
    """

    def __init__(self) -> None:
        self.stopped: signal.Signals | None = None
        self._processes: list[subprocess.Popen[bytes]] = []

    def start(self, command: list[str], log: Path | None = None) -> subprocess.Popen[bytes]:
        """Start a command. Its output is appended to log, or goes to this process's output without one.

        A launch script takes the interpreter of this process.
        """
        parent, libc = os.getpid(), ctypes.CDLL(None, use_errno=True)

        def end_with_parent() -> None:
            libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0)
            if os.getppid() != parent:  # the parent was killed before the kernel knew
                os._exit(ENDS[signal.SIGTERM])

        with open(log, "ab") if log else nullcontext() as stream:
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=stream, stderr=subprocess.STDOUT if log else None,
                process_group=0, preexec_fn=end_with_parent, env={**os.environ, "PYTHON": sys.executable},
            )  # fmt: skip
        self._processes.append(process)
        if self.stopped:  # the signal came while the command started
            process.send_signal(self.stopped)
        return process

    @contextmanager
    def forwarding(self) -> Iterator[None]:
        """Forward signals that would end this process to the commands, and keep the signal in `stopped`.

        An ignored signal (SIGINT in a script's background, SIGHUP under nohup) stays ignored.
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
            process.send_signal(number)  # does nothing if the process has ended


def exit_code(returncode: int) -> int:
    """Return the shell's exit code for a return code of subprocess: 128 + N for signal N."""
    return returncode if returncode >= 0 else 128 - returncode


def brief(path: Path) -> Path:
    """Return a path below the working directory as a relative one."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
