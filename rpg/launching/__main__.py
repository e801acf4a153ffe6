"""`python -m rpg.launching [--script=NAME] OVERRIDE...`: start a run, with signals answered from the first line on."""

import importlib.util
import os
import socket
import sys

from rpg.launching import IN_JOB, signals

NEEDED = ("verl", "hydra")  # a Python without one of these is not the one that was meant


def no_environment() -> str | None:
    """Why this Python cannot run anything, with the remedy; None where it has what is needed first."""
    missing = ", ".join(name for name in NEEDED if importlib.util.find_spec(name) is None)
    if not missing:
        return None
    if IN_JOB in os.environ:
        return (
            f"{sys.executable} on {socket.gethostname()}, the python3 of the cluster's head, has no {missing}; "
            "activate the environment of requirement.txt there, and then `ray start --head`"
        )
    return (
        f"{sys.executable} has no {missing}; activate the environment that bash scripts/setup_gpu.sh made "
        "(bash scripts/setup.sh for profile=cpu), or name its Python: PYTHON=/path/to/python3"
    )


def main(argv: list[str]) -> int:
    """The run's exit code."""
    signals.end_at_once()
    if problem := no_environment():
        print(f"error: {problem}", file=sys.stderr)
        return signals.REFUSED
    from rpg.launching import start  # a second of imports

    try:
        return start.main(argv)
    except KeyboardInterrupt:  # just after the run's own handling
        print("interrupted", file=sys.stderr)
        return signals.INTERRUPTED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
