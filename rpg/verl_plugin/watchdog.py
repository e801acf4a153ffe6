"""Ends a run that makes no step, or that takes too long, with the stack of every thread of the task runner.

Python's faulthandler writes the stacks to stderr, so that Ray shows them in the run's log, and exits. It waits in a
thread without Python, so that it acts also where the interpreter hangs. The run's driver gets Ray's ActorDiedError and
ends, and Ray ends all other processes of the run with it, on every node.
"""

import faulthandler
import time

BEGAN = time.monotonic()  # of the task runner, which imports this first
STDERR = 2  # of the process; sys.stderr may have no descriptor


def arm(stall_limit: float | None, time_limit: float | None) -> None:
    """Give the run stall_limit seconds from now, but no more than time_limit since its start; None is no limit."""
    left = None if time_limit is None else max(BEGAN + time_limit - time.monotonic(), 1e-3)
    if waits := [seconds for seconds in (stall_limit, left) if seconds is not None]:
        faulthandler.dump_traceback_later(min(waits), exit=True, file=STDERR)
