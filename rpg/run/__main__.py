"""`python -m rpg.run [NAME] OVERRIDE...`: start a run."""

import os
import sys

from rpg.run import signals
from rpg.verl_plugin import version


def main(name: str | None, overrides: list[str]) -> int:
    """Start the run `name` with these overrides; return its exit code (signals.py)."""
    try:
        from rpg.run.start import start  # a second of imports

        return start(name, overrides)
    except KeyboardInterrupt:
        print("interrupted before the run began", file=sys.stderr)
        return signals.ENDS[signals.ending()]
    except ImportError as error:
        if (message := version.missing_extra(error)) is None:
            raise
        print(f"error: {message}", file=sys.stderr)
        return signals.REFUSED


if __name__ == "__main__":
    arguments = sys.argv[1:]
    first = arguments[0] if arguments else "="
    named = os.path.isfile(first) or not ("=" in first or first.startswith("~"))  # a path may contain =
    sys.exit(main(arguments[0], arguments[1:]) if named else main(None, arguments))
