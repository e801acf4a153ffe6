"""Start a run: from a script's name to the frozen configuration, run directory, monitor and cluster job.

`compose.py` makes the configuration, `freeze.py` freezes it, `start.py` calls the other modules in order.
"""

IN_JOB = "RPG_IN_JOB"  # set in a job's environment, where Ray sets RAY_ADDRESS as well


class RayWasLate(Exception):
    """Ray's node did not start within Ray's time limit, on a busy machine; training has not begun."""
