"""`python -m recipe.rpg [--script=NAME] OVERRIDE...`: main_rpg, with signals answered from the first line on."""

import sys

from recipe.rpg import signals
from recipe.rpg.exit_codes import INTERRUPTED


def main() -> int:
    """main_rpg's exit code; a Ctrl-C that run.py's own handling just missed is one line, too."""
    signals.end_at_once()
    from recipe.rpg import main_rpg  # a second of imports

    try:
        return main_rpg.main(sys.argv[1:])
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
