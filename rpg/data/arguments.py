"""Types of command-line arguments."""

import argparse
from collections.abc import Callable


def at_least(least: int) -> Callable[[str], int]:
    """Return the type of an integer of this size or more."""

    def integer(text: str) -> int:
        value = int(text)
        if value < least:
            raise argparse.ArgumentTypeError(f"{text} is not {least} or more")
        return value

    return integer
