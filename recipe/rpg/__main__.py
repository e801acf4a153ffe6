"""`python -m recipe.rpg OVERRIDE...` from a checkout: the same as `python -m rpg.launching`."""

import sys

from rpg.launching.__main__ import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
