"""An interpreter that has done its imports already.

One run of the stack is a dozen Python processes, and nearly all of its start is each of them importing
torch, verl and vLLM anew. On a machine of two cores that is over a minute. Here one process (server.py)
imports them once and forks; `Preloaded.executable` is a program that can stand wherever a Python interpreter
is called (client.py): it hands its arguments, environment and open files to the server, whose forked child
runs them, and it lives, takes signals and exits as that child does.

Used on the CPU profile only, through Ray's own `runtime_env.py_executable`. Linux only.
"""

import contextlib
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from rpg.files.lock import Scratch

HERE = Path(__file__).parent

# A fork of a process with threads is not safe; these libraries would start some when they are imported.
SINGLE_THREADED = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}


class Preloaded:
    """A running import server.

    executable: path of a program that behaves as this Python interpreter does, with modules imported.
    """

    def __init__(self, early: Sequence[str], late: Sequence[str]):
        """Start importing in the background.

        early: modules imported at once. late: those imported when the first program is started, in its
        environment, because they read it when they are imported (Ray and whatever imports Ray).
        """
        self._scratch = Scratch("preload")
        directory = self._scratch.path
        self._address = directory / "socket"
        self.executable = directory / "python"
        client = shlex.join([sys.executable, "-S", "-E", "-s", str(HERE / "client.py"), str(self._address)])
        self.executable.write_text(f'#!/bin/sh\nexec {client} "$@"\n')
        self.executable.chmod(0o755)
        self._log = directory / "log"
        with open(self._log, "wb") as stream, socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self._address))
            listener.listen(64)  # clients that come before the imports are done wait here
            self._server = subprocess.Popen(
                [sys.executable, HERE / "server.py", str(listener.fileno()), str(os.getpid()), *early, "--", *late],
                pass_fds=[listener.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,  # a Ctrl-C in the terminal is the driver's to handle
                env={**os.environ, **SINGLE_THREADED},
            )

    def wait_for_early(self, patience: float = 600.0) -> None:
        """Return when the early imports are done, or when it is known that they fail (see failure).

        What starts beside them on a machine of two cores starts late. Raises TimeoutError after patience seconds.
        """
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(patience)
            with contextlib.suppress(ConnectionError):  # the server is gone
                connection.connect(str(self._address))
                connection.shutdown(socket.SHUT_WR)  # a client that asks for nothing: the server closes when it is up
                connection.recv(1)

    def failure(self) -> str | None:
        """Why no more programs can be started, None while all is well."""
        code = self._server.poll()
        if code is None:
            return None
        lines = self._log.read_text(errors="replace").splitlines()
        return f"the import server ended with exit code {code}: {lines[-1] if lines else 'no word of it'}"

    def close(self) -> None:
        """End the server and remove its files. Programs that it started live on."""
        self._server.terminate()
        self._server.wait()
        self._scratch.remove()
