"""`python -m rpg.run [NAME] OVERRIDE...`: start a run, with signal handlers from the first line on."""

import importlib.util
import os
import socket
import sys

from rpg.run import signals
from rpg.verl_plugin import version


def missing_packages() -> str | None:
    """Return a message with remedy for a Python without verl or Hydra, None if both are installed."""
    missing = ", ".join(name for name in ("verl", "hydra") if importlib.util.find_spec(name) is None)
    if not missing:
        return None
    if signals.IN_JOB in os.environ:
        return (
            f"{sys.executable} on {socket.gethostname()}, the python3 of the cluster's head, has no {missing}; "
            "activate the environment of requirement.txt there before `ray start --head`"
        )
    return (
        f"{sys.executable} has no {missing}; install an environment with bash scripts/setup_gpu.sh (profile=cpu: "
        "bash scripts/setup.sh) and activate it, or set PYTHON=/path/to/python3"
    )


def main(name: str | None, overrides: list[str]) -> int:
    """Start the run `name` with these overrides; return its exit code (signals.py)."""
    signals.end_at_once()
    if message := missing_packages():
        print(f"error: {message}", file=sys.stderr)
        return signals.REFUSED
    os.environ.setdefault(version.SAID, "1")  # the run's own check is about the version
    try:
        from rpg.run.start import start  # a second of imports
    except ImportError as error:
        if (message := version.missing_extra(error)) is None:
            raise
        print(f"error: {message}", file=sys.stderr)
        return signals.REFUSED
    try:
        return start(name, overrides)
    except KeyboardInterrupt:  # a signal between the run's handlers and the exit
        print(signals.WORDS[signals.ending()], file=sys.stderr)
        return signals.ENDS[signals.ending()]


if __name__ == "__main__":
    arguments = sys.argv[1:]
    first = arguments[0] if arguments else "="
    named = os.path.isfile(first) or not ("=" in first or first.startswith("~"))  # a path may contain =
    sys.exit(main(arguments[0], arguments[1:]) if named else main(None, arguments))
