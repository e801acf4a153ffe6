"""Errors and notes of the commands on results. A note is a line; a command whose input was left out returns 1."""

import sys
from collections.abc import Iterable, Sequence

from rpg.diagnostics import UserError, fitted, printable


class ResultsError(UserError):
    """Input that cannot be read or shown; the message names it and the remedy."""


class LeftOut(str):
    """A note on input that could not be used."""


def about(name: str, note: str) -> str:
    """Return the note with its subject in front."""
    return type(note)(f"{name}: {note}")


def exit_code(notes: Iterable[str]) -> int:
    """Return 0 if all input was used, 1 if some was left out (docs/results.md)."""
    return int(any(isinstance(note, LeftOut) for note in notes))


def begin_of(text: str, letters: int) -> str:
    """Return the text in at most this many letters; an ellipsis shows that it is cut off."""
    return text if len(text) <= letters else f"{text[: letters - 1]}…"


def end_of(text: str, letters: int) -> str:
    """Return the text, or the end of a longer one: prompts end in the problem, responses in the answer."""
    return text if len(text) <= letters else f"… {text[-letters:]}"


def show_notes(notes: Sequence[str]) -> int:
    """Print the notes of a command and return its exit code."""
    for note in dict.fromkeys(notes):
        print(*fitted([f"note: {printable(note)}"], 6, sys.stderr), sep="\n", file=sys.stderr)
    return exit_code(notes)
