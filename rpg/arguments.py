"""Types of command-line arguments."""

import argparse
from collections.abc import Callable


def not_empty(text: str) -> str:
    """The type of a text that a shell's unset variable must not leave empty."""
    if not text:
        raise argparse.ArgumentTypeError("is empty; give a value, or leave the option out")
    return text


def at_least(least: int, most: int | None = None) -> Callable[[str], int]:
    """Return the type of an integer of this size or more, and at most `most`."""
    wanted = f"{least} or more" if most is None else f"between {least} and {most}"

    def integer(text: str) -> int:
        value = int(text)
        if value < least or (most is not None and value > most):
            raise argparse.ArgumentTypeError(f"{text} is not {wanted}")
        return value

    return integer
