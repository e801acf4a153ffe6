"""Messages of the commands on results, in one line each: errors, notes, and the exit codes that they mean."""

import os
import re
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rpg.diagnostics import UserError, fitted, printable

NAME = 40  # characters of a run's name in a note
NAMED = 3  # names in a note; the others are counted


class ResultsError(UserError):
    """Input that cannot be read or shown; the message names it and the remedy."""


@dataclass(frozen=True)
class Note:
    """A remark on the input of a command.

    left_out: whether some of the input could not be used. subject: the run that the text begins with, by `about`.
    """

    text: str
    left_out: bool = False
    subject: str = field(default="", compare=False)

    def about(self, name: str) -> "Note":
        """Return the note with its subject in front."""
        return Note(f"{name}: {self.text}", self.left_out, name)


def exit_code(notes: Iterable[Note]) -> int:
    """Return 0 if all input was used, 1 if some was left out (docs/results.md)."""
    return int(any(note.left_out for note in notes))


def show_notes(notes: Sequence[Note]) -> int:
    """Print the notes of a command and return its exit code."""
    for text in merged(notes):
        print(*fitted([f"note: {printable(text)}"], 6, sys.stderr), sep="\n", file=sys.stderr)
    return exit_code(notes)


def merged(notes: Iterable[Note]) -> list[str]:
    """Return the texts of notes, one for equal remarks on several runs; what was left out comes first."""
    subjects: dict[str, list[str]] = {}
    for note in sorted(notes, key=lambda note: not note.left_out):
        subjects.setdefault(note.text.removeprefix(f"{note.subject}: "), []).append(note.subject)
    short = shortened({name for names in subjects.values() for name in names if name}, NAME)
    return [
        f"{listed([short[name] for name in dict.fromkeys(names)])}: {text}" if names[0] else text
        for text, names in subjects.items()
    ]


def listed(names: Sequence[str], separator: str = ", ") -> str:
    """Return the first names and the number of the others."""
    more = len(names) - NAMED
    return separator.join(names) if more <= 1 else f"{separator.join(names[:NAMED])} and {more} more"


def shortened(names: Iterable[str], width: int) -> dict[str, str]:
    """Return name -> the name in at most `width` characters, different for different names.

    If a name is longer, all lose a part of what they begin with in common; then the middle goes.
    """
    names = list(dict.fromkeys(names))
    if max(map(len, names), default=0) <= width:
        return dict(zip(names, names, strict=True))
    common = re.match(r".*[-_/ .]|", os.path.commonprefix(names), re.DOTALL)  # noqa: RUF071  # of letters
    begin = common.end() if common and len(names) > 1 else 0
    short: dict[str, str] = {}
    for number, name in enumerate(names):
        text = f"{name[: min(begin, width // 4)]}…{name[begin:]}" if begin > 1 else name
        half = (width - 1) // 2
        text = text if len(text) <= width else f"{text[: width - 1 - half]}…{text[-half:]}"
        if text in short.values():
            text = f"{text[: width - 1 - len(str(number))]}…{number}"
        short[name] = text
    return short


def end_of(text: str, letters: int) -> str:
    """Return the text, or the end of a longer one: prompts end in the problem, responses in the answer."""
    return text if len(text) <= letters else f"… {text[-letters:]}"
