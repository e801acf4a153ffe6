"""`python -m recipe.rpg [--script=NAME] OVERRIDE...`: main_rpg, with signals answered from the first line on."""

import importlib.util
import os
import socket
import sys

from recipe.rpg import signals
from recipe.rpg.exit_codes import INTERRUPTED, REFUSED

NEEDED = ("verl", "hydra")  # without one of these, this is not the Python that was meant


def no_environment() -> str | None:
    """Why this Python cannot run anything, with the remedy; None where it has what is needed first."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if not missing:
        return None
    from recipe.rpg.submit import IN_JOB

    if IN_JOB in os.environ:
        return (
            f"{sys.executable} on {socket.gethostname()}, the python3 of the cluster's head, has no "
            f"{', '.join(missing)}; activate the environment of requirement.txt there, and then `ray start --head`"
        )
    return (
        f"{sys.executable} has no {', '.join(missing)}; activate the environment that bash scripts/setup_gpu.sh made "
        "(bash scripts/setup.sh for profile=cpu), or name its Python: PYTHON=/path/to/python3"
    )


def main() -> int:
    """main_rpg's exit code; a Ctrl-C that run.py's own handling just missed is one line, too."""
    signals.end_at_once()
    if problem := no_environment():
        print(f"error: {problem}", file=sys.stderr)
        return REFUSED
    from recipe.rpg import main_rpg  # a second of imports

    try:
        return main_rpg.main(sys.argv[1:])
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
