"""A run's life: from a script's name to the frozen configuration, its directory, its monitor, a job of a cluster.

`compose.py` makes the configuration, `freeze.py` freezes it, `start.py` calls everything else in order.
"""

IN_JOB = "RPG_IN_JOB"  # set in a job's environment, where Ray sets RAY_ADDRESS as well


class RayWasLate(Exception):
    """Ray's node did not start within Ray's own limit on a busy machine; the training has not begun."""
