"""Messages of the commands on results, in one line each: errors, notes, and the exit codes that they mean."""

import argparse
import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Self

from rpg.data.readers import DataError
from rpg.diagnostics import BadSetting, Refused
from rpg.registry.recipe import UnknownScript
from rpg.rewards.user_function import RewardError


class ResultsError(ValueError):
    """Input that cannot be read or shown; the message names it and the remedy."""


@dataclass(frozen=True)
class Note:
    """A remark on the input of a command. left_out: whether some of it could not be used."""

    text: str
    left_out: bool = False

    def about(self, name: str) -> Self:
        """Return the note with its subject in front."""
        return replace(self, text=f"{name}: {self.text}")


def exit_code(notes: Iterable[Note]) -> int:
    """Return 0 if all input was used, 1 if some was left out (docs/results.md)."""
    return int(any(note.left_out for note in notes))


def show_notes(notes: Sequence[Note]) -> int:
    """Print the notes of a command and return its exit code."""
    for note in dict.fromkeys(notes):
        print(f"note: {printable(note.text)}", file=sys.stderr)
    return exit_code(notes)


def refusing(command: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Decorate a command: print the error and return 2 if its input cannot be used."""

    @functools.wraps(command)
    def run(args: argparse.Namespace) -> int:
        try:
            return command(args)
        except BrokenPipeError:
            raise
        except (ResultsError, Refused, DataError, RewardError, BadSetting, UnknownScript, OSError) as error:
            print(f"rpg {args.command}: {printable(str(error))}", file=sys.stderr)
            return 2

    return run


def printable(text: str) -> str:
    """Return the text in one line, with unprintable characters as Python escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)
