"""A run's life: from a script's name to the frozen configuration, its directory, its monitor, a job of a cluster.

`compose.py` makes the configuration, `settle.py` freezes it, `start.py` is the order of everything else.
"""

IN_JOB = "RPG_IN_JOB"  # set in a job's environment, where Ray sets RAY_ADDRESS as well


class RayWasLate(Exception):
    """Ray's node did not start in Ray's time, on a machine that is busy with other work; nothing was begun."""
