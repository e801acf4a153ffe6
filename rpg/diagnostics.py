"""What a check finds on rows, settings and machine, how it is shown, and the refusal of a run."""

import difflib
import json
import shutil
import sys
import textwrap
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, TextIO

Level = Literal["error", "warning"]


class Absent(StrEnum):
    """The value of a key that is not there, or of which no value is wrong."""

    ABSENT = "absent"


ABSENT = Absent.ABSENT
SHOWN_ROWS = 5


@dataclass(frozen=True)
class Diagnostic:
    """One finding of a check.

    Attributes:
        key: a key of the configuration, a column, an environment variable, or another subject.
        value: its value; ABSENT if no value is wrong.
        message: the problem.
        remedy: what to do.
        level: error (the run cannot work, or would do something else) or warning.
    """

    key: str
    value: Any
    message: str
    remedy: str = ""
    level: Level = "error"

    def __str__(self) -> str:
        return self.statement + (f"; {self.remedy}" if self.remedy else "")

    @property
    def statement(self) -> str:
        """The message without the remedy."""
        return f"{self.key if self.value is ABSENT else f'{self.key}={shown(self.value)}'}: {self.message}"


class UserError(ValueError):
    """Input that a command cannot use; the message names it and the remedy. `rpg` prints it and returns 2 (cli.py)."""


class Refused(UserError):
    """The run cannot work; `diagnostics` has the reasons and remedies."""

    def __init__(self, diagnostics: list[Diagnostic]):
        super().__init__("\n".join(map(str, diagnostics)))
        self.diagnostics = diagnostics


def shown(value: Any) -> str:
    """Return a value as in an override: null, true, unquoted text."""
    if isinstance(value, str):
        return value if value.isprintable() else repr(value)
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, list):
        return f"[{','.join(map(shown, value))}]"
    return str(value)


def fitted(lines: Iterable[str], indent: int, stream: TextIO | None = None) -> Iterator[str]:
    """Yield the lines, wrapped and indented to the terminal's width; unchanged outside a terminal.

    stream: where the lines will be printed; default: stdout.
    """
    if not (stream or sys.stdout).isatty():
        yield from lines
        return
    width, below = shutil.get_terminal_size().columns, " " * indent
    for line in (part for text in lines for part in text.split("\n")):
        yield textwrap.fill(line, width, subsequent_indent=below, break_on_hyphens=False, break_long_words=False)


def printable(text: str) -> str:
    """Return the text in one line, with unprintable characters as Python escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def did_you_mean(name: str, known: Iterable[str], cutoff: float = 0.6) -> str:
    """Return "did you mean X?" for the nearest known name, or "" if none is as similar as `cutoff`."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=cutoff)
    return f"did you mean {near[0]}?" if near else ""


Findings = Iterator[Diagnostic]


@dataclass
class Diagnostics:
    """All diagnostics of one file, grouped by key and remedy: [count, first few] of each."""

    groups: dict[tuple[str, str, Level], list[Any]] = field(default_factory=dict)

    def add(self, diagnostic: Diagnostic, row: int | None = None) -> None:
        """Record `diagnostic`, of one row or, without a row, of the whole file."""
        group = self.groups.setdefault((diagnostic.key, diagnostic.remedy, diagnostic.level), [0, []])
        group[0] += 1
        if len(group[1]) < SHOWN_ROWS:
            group[1].append(f"{'all rows' if row is None else f'row {row}'}, {diagnostic.statement}")

    def count(self, level: Level) -> int:
        """Return how many diagnostics of a level there are."""
        return sum(group[0] for (*_, of_level), group in self.groups.items() if of_level == level)

    def lines(self) -> Iterator[str]:
        """Yield the diagnostics as text, errors first, at most five rows of a kind and then their number."""
        for (key, remedy, level), (count, rows) in sorted(self.groups.items(), key=lambda item: item[0][2]):
            yield from (f"  {level}: {row}" for row in rows)
            if count > len(rows):
                yield f"  {level}: and {count - len(rows)} more of this kind in {key}"
            yield f"    -> {remedy}"
