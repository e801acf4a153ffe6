"""A Python interpreter that starts with its imports done.

A run of the stack consists of a dozen Python processes, and its start-up time is mostly their imports of torch, verl
and vLLM: over a minute on two cores. Here one process (server.py) imports them once and forks. `Preloaded.executable`
is a program that replaces the Python interpreter (client.py): it passes its arguments, environment and open files to
the server, whose forked child runs them, and it forwards signals and the exit code.

Used by the CPU profile only, through Ray's `runtime_env.py_executable`. Linux only.
"""

import contextlib
import os
import shlex
import socket
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent

# Forking a process with threads is not safe; these libraries would start threads at import.
SINGLE_THREADED = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "JE_ARROW_MALLOC_CONF": "background_thread:false",
}


class Preloaded:
    """A running import server.

    executable: path of a program that behaves like this Python interpreter with the modules imported.
    pid: the server's process.
    """

    def __init__(self, early: Sequence[str], late: Sequence[str]):
        """Start importing in the background.

        early: modules to import at once. late: modules to import when the first program starts, in its environment,
        which they read at import (Ray and modules that import Ray).
        """
        self._folder = tempfile.TemporaryDirectory(prefix="rpg-preload-")
        directory = Path(self._folder.name)
        self._address = directory / "socket"
        self.executable = directory / "python"
        client = shlex.join([sys.executable, "-S", "-E", "-s", str(HERE / "client.py"), str(self._address)])
        self.executable.write_text(f'#!/bin/sh\nexec {client} "$@"\n')
        self.executable.chmod(0o755)
        self._log = directory / "log"
        with open(self._log, "wb") as stream, socket.socket(socket.AF_UNIX) as listener:
            listener.bind(str(self._address))
            listener.listen(64)  # early clients wait here until the imports are done
            self._server = subprocess.Popen(
                [sys.executable, HERE / "server.py", str(listener.fileno()), str(os.getpid()), *early, "--", *late],
                pass_fds=[listener.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=stream,
                start_new_session=True,  # the driver handles Ctrl-C
                env={**os.environ, **SINGLE_THREADED},
            )
        self.pid = self._server.pid

    def wait_for_early(self) -> None:
        """Return when the early imports are done or have failed: processes that start meanwhile start late."""
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX) as client:
            client.connect(str(self._address))
            client.shutdown(socket.SHUT_WR)
            client.recv(1)  # the server answers a client without a request by closing the connection

    def failure(self) -> str | None:
        """Return why no more programs can start, or None."""
        code = self._server.poll()
        if code is None:
            return None
        lines = self._log.read_text(errors="replace").splitlines()
        return f"the import server ended with exit code {code}: {lines[-1] if lines else 'no message'}"

    def close(self) -> None:
        """End the server and remove its files. Programs that it started continue."""
        self._server.kill()
        self._server.wait()
        self._folder.cleanup()
