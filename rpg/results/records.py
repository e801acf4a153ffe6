"""Reading what others wrote: files, lines and numbers that may be anything; and one history out of a run's records.

Whatever cannot be used is a ResultsError with the file in its message, or, where the rest can be shown without it,
a note of the kind LeftOut, by which the commands tell their exit code.
"""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import yaml

Record = tuple[int, dict[str, float]]
Parsed = TypeVar("Parsed")

LARGEST = 3.4028235e38  # of float32; a sum or a picture of more overflows, and no metric is that large
LARGEST_STEP = 2**53
MOST_LEVELS = 64  # of lists and mappings in each other; a configuration of verl has eight
MOST_BITS = 1023  # of an integer; a longer one is no float, and Python does not even print it

# What a file of another kind may raise: YAML's types are made by Python's constructors, whose errors come through.
_WRONG_KIND = (yaml.YAMLError, ValueError, LookupError, AttributeError, TypeError, ArithmeticError, RecursionError)


class ResultsError(ValueError):
    """Something that cannot be read or shown; the message names it and says what to do."""


class BrokenLine(ResultsError):
    """A line that cannot be used. `place`: file and number; `cut_off`: it is the last one and has no end."""

    def __init__(self, place: str, message: str, cut_off: bool) -> None:
        super().__init__(f"{place}: {message}")
        self.place, self.cut_off = place, cut_off


class LeftOut(str):
    """A note of something that could not be used, while the rest is shown."""


def about(name: str, note: str) -> str:
    """The note with what it is about in front; a LeftOut stays one."""
    return type(note)(f"{name}: {note}")


def exit_code(notes: Iterable[str]) -> int:
    """0 where all that was given was used, 1 where something was left out (docs/results.md)."""
    return int(any(isinstance(note, LeftOut) for note in notes))


def brief(value: object) -> str:
    """A value for a message: at most 60 letters."""
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def reason(error: Exception) -> str:
    """An error for a message, in one line; parsers write several."""
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def plain(value: Any, levels: int = MOST_LEVELS) -> Any:
    """`value`, of which every part can be gone through and printed.

    Raises:
        ValueError: nested too deep, or an integer too long.
    """
    if isinstance(value, int) and value.bit_length() > MOST_BITS:
        raise ValueError(f"an integer of {value.bit_length()} bits")
    if isinstance(value, (dict, list, tuple, set)):
        if levels == 0:
            raise ValueError(f"more than {MOST_LEVELS} lists and mappings in each other")
        for part in (*value, *value.values()) if isinstance(value, dict) else value:
            plain(part, levels - 1)
    return value


class _NoAliases(yaml.SafeLoader):
    """YAML without references: nobody writes them into a configuration, and a few lines of them grow without end."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError(f"a reference, *{self.peek_event().anchor}")
        return super().compose_node(parent, index)


def parse_json(text: bytes | str) -> Any:
    """One JSON value. Raises ValueError or RecursionError."""
    return plain(json.loads(text))


def parse_yaml(text: bytes | str) -> Any:
    """One YAML value. Raises any of _WRONG_KIND."""
    return plain(yaml.load(text, Loader=_NoAliases))


def has_file(path: Path) -> bool:
    """Whether a file is there.

    Raises:
        ResultsError: something else is there by that name.
    """
    if not path.is_file() and os.path.lexists(path):
        raise ResultsError(f"{path}: not a file; remove it, or put the file there")
    return path.is_file()


def read_mapping(path: Path) -> dict[str, Any]:
    """A file that holds {name: value, ...}: JSON by its name, else YAML.

    Raises:
        ResultsError: it holds something else.
    """
    kind, parse = ("JSON", parse_json) if path.suffix == ".json" else ("YAML", parse_yaml)
    try:
        content = parse(path.read_bytes())
    except _WRONG_KIND as error:
        raise ResultsError(f"{path}: cannot be read as {kind}: {reason(error)}; restore it or remove it") from error
    if not isinstance(content, dict):
        what = "is empty" if content is None else f"holds {brief(content)}"
        raise ResultsError(f"{path}: {what}, no settings by name; restore it or remove it")
    return content


def read_lines(path: Path, parse: Callable[[Any], Parsed], what: str) -> Iterator[tuple[int, Parsed]]:
    """Yield (line number, parse(value)) of a file with one JSON value a line; blank lines count and are skipped.

    Lines end in b"\\n" and nowhere else: loggers write U+2028, U+0085 and their like into texts as they are.

    Raises:
        BrokenLine: a line that is no JSON, or of which `parse` raises ValueError, KeyError or TypeError.
    """
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                parsed = parse(parse_json(line))
            except (ValueError, KeyError, TypeError, RecursionError) as error:
                message = f"not {what} ({reason(error)}); remove the line, or give the file of a run that ended"
                raise BrokenLine(f"{path}, line {number}", message, not line.endswith(b"\n")) from error
            yield number, parsed


def usable(value: float) -> bool:
    """Whether a value can be shown and averaged: not NaN, not infinite."""
    return abs(value) <= LARGEST


def numbers(values: dict) -> dict[str, float]:
    """The entries of `values` that are numbers, as floats; loggers also hold tables and texts.

    Raises:
        TypeError: `values` is no mapping.
    """
    if not isinstance(values, dict):
        raise TypeError(f"{brief(values)} where metrics by name are expected")
    return {
        key: float(value)
        for key, value in values.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def as_step(value: Any) -> int:
    """A step as a logger counts them. Raises ValueError for anything but 0, 1, 2, ..."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= LARGEST_STEP:
        raise ValueError(f"step {brief(value)} is not one of 0, 1, 2, ...")
    if value != int(value):
        raise ValueError(f"step {value} is no integer")
    return int(value)


def read_jsonl(path: Path, notes: list[str]) -> Iterator[Record]:
    """Yield the records of a file that verl's file logger wrote: {"step": int, "data": {...}} a line.

    A last line that was not written to its end is what a killed or a running run leaves: it is left out and
    noted. Any other broken line is an error.

    Raises:
        ResultsError: a line that is no record; names file and line.
    """
    records = read_lines(
        path, lambda line: (as_step(line["step"]), numbers(line["data"])), 'a record {"step": ..., "data": {...}}'
    )
    try:
        for _, record in records:
            yield record
    except BrokenLine as error:
        if not error.cut_off:
            raise
        notes.append(f"{error.place} is cut off: it was not written to its end")


def assemble(records: Iterable[Record], notes: list[str]) -> dict[int, dict[str, float]]:
    """One history, by step: what was written later wins.

    A step that does not go forward means the run was resumed there: what an earlier part had written
    beyond it belongs to a branch that was given up, so those steps are dropped, and noted.
    """
    history: dict[int, dict[str, float]] = {}
    last: int | None = None
    for step, data in records:
        if last is not None and step < last:
            dropped = sorted(known for known in history if known > step)
            for known in dropped:
                del history[known]
            notes.append(
                f"resumed at step {step}: steps {dropped[0]} to {dropped[-1]} of the earlier part are replaced"
            )
        history.setdefault(step, {}).update(data)
        last = step
    return dict(sorted(history.items()))
