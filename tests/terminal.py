"""A pseudo-terminal of 80 columns and 24 lines: what reaches it, Ctrl-C, and a closed window."""

import contextlib
import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from pathlib import Path

import psutil
from rich.cells import cell_len

COLUMNS, ROWS = 80, 24
CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
ERASED = re.compile(r"[^\n]*\n(?:\x1b\[\?25h)?\r\x1b\[1A\x1b\[2K")  # a line, until the cursor goes back up to clear it
HIDE, SHOW = "\x1b[?25l", "\x1b[?25h"  # the cursor


class Terminal:
    """A command in a terminal of its own; `output` receives what it writes there."""

    def __init__(self, command: list[str], output: Path, cwd: Path, env: dict[str, str]):
        self.output = output
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))

        def take() -> None:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # Ctrl-C reaches the command through the terminal

        self.process = subprocess.Popen(
            command, cwd=cwd, stdin=slave, stdout=slave, stderr=slave, start_new_session=True, preexec_fn=take,
            env={**env, "TERM": "xterm-256color"},
        )  # fmt: skip
        os.close(slave)
        output.touch()
        self._closing = threading.Event()
        self._copier = threading.Thread(target=self._copy, daemon=True)
        self._copier.start()

    def _copy(self) -> None:
        with open(self.output, "ab", buffering=0) as stream, contextlib.suppress(OSError):  # EIO: nobody writes
            while not self._closing.is_set():
                if select.select([self._master], [], [], 0.1)[0]:
                    stream.write(os.read(self._master, 65536))
        os.close(self._master)

    def press_ctrl_c(self) -> None:
        """Press Ctrl-C."""
        os.write(self._master, b"\x03")

    def close_window(self) -> None:
        """Close the terminal: the kernel sends SIGHUP, and writing to it fails."""
        self._closing.set()
        self._copier.join()

    def text(self) -> str:
        """Return everything that was written so far."""
        return self.output.read_bytes().decode(errors="replace")

    def wait_for(self, pattern: str, timeout: float = 60) -> None:
        """Wait until text that matches a regular expression has been written."""
        until = time.monotonic() + timeout
        while not re.search(pattern, CONTROL.sub("", self.text())):
            assert self.process.poll() is None, self.text()[-3000:]
            assert time.monotonic() < until, self.text()[-3000:]
            time.sleep(0.05)

    def wait(self, timeout: float = 120) -> int:
        """Return the exit code, when all that was written has arrived."""
        code = self.process.wait(timeout)
        self._copier.join(timeout)
        return code


def shown_lines(text: str) -> list[str]:
    """Return the lines that a terminal shows one below the other, without colours; a redrawn line counts once."""
    shown = CONTROL.sub("", ERASED.sub("", text))
    return [line.split("\r")[-1] for line in shown.replace("\r\n", "\n").split("\n")]


def assert_in_order(text: str, most: int) -> None:
    """Assert that at most `most` lines were written, none wraps, the cursor is shown, and the prompt gets a line."""
    lines = shown_lines(text)
    assert len(lines) - 1 <= most, "\n".join(lines)
    drawn = re.split(r"[\r\n]+", CONTROL.sub("", text).replace("^C", ""))
    assert [line for line in drawn if cell_len(line) > COLUMNS] == []
    assert text.rfind(SHOW) >= text.rfind(HIDE), "the cursor stays hidden"
    assert lines[-1] == "", "the prompt follows on the last line"


def with_environment(name: str, value: str) -> list[psutil.Process]:
    """Return living processes with this environment variable."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.NoSuchProcess, psutil.AccessDenied):
            if process.environ().get(name) == value and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found
