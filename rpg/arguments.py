"""Types of command-line arguments."""

import argparse
from collections.abc import Callable


def at_least(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return the type of an integer of this size or more, and at most `most`."""
    wanted = f"{least} or more" if most is None else f"between {least} and {most}"

    def integer(text: str) -> int:
        value = int(text)
        if value < least or (most is not None and value > most):
            raise argparse.ArgumentTypeError(f"{text} is not {wanted}")
        return value

    return integer
