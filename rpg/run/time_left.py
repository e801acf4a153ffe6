"""The time that a run still takes, as the progress bar and `rpg watch` show it. Imports neither Ray nor pandas."""

from collections.abc import Sequence
from statistics import median

RECENT = 20  # steps whose median time is used
STEP_TIME = "timing_s/step"  # verl's metric: seconds of a step without Ray's and vLLM's start


def time_left(step_times: Sequence[float], steps: int, since: float = 0.0) -> str:
    """Return for example "12 min left", or "" without a step time.

    step_times: seconds of the steps so far. steps: number of steps to do. since: seconds in the present step.
    """
    if not step_times:
        return ""
    typical = median(step_times[-RECENT:])
    return f"{duration(max(steps * typical - since, (steps - 1) * typical))} left"


def duration(seconds: float) -> str:
    """Return a duration such as 45 s, 12 min or 3.4 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
