"""verl 0.9.1: a vLLM server outlives its dead engine, and the run waits for it forever.

verl's agent loop retries its requests, and the actor waits at its socket to transfer weights. With this file the server
process ends with the engine, and the next call to it ends the run with Ray's error: a request, or the one with which
socket_name.py begins a transfer.

May go when a run whose vLLM engine is killed stops by itself (tests/e2e/test_faults.py without this file).
"""

import os
import sys
import time
import traceback
from typing import Any

INTERVAL = 1.0  # seconds between two polls of the engine


def watch(server: Any) -> None:
    """Wait until server.engine, a vLLM AsyncLLM, is dead, and end this process then."""
    while True:
        time.sleep(INTERVAL)
        engine = getattr(server, "engine", None)  # in a replica on several nodes, only the first has an engine
        if engine is not None and engine.errored:
            traceback.print_exception(engine.dead_error)
            sys.stderr.flush()
            os._exit(1)
