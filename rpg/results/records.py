"""Records of one run in the order in which they were written, put together into one history."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path

Record = tuple[int, dict[str, float]]


class ResultsError(ValueError):
    """Something that cannot be read or shown; the message names it and says what to do."""


def numbers(values: dict) -> dict[str, float]:
    """The entries of `values` that are numbers, as floats; loggers also hold tables and texts."""
    return {
        key: float(value)
        for key, value in values.items()
        if isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def read_jsonl(path: Path, notes: list[str]) -> Iterator[Record]:
    """Yield the records of a file that verl's file logger wrote: {"step": int, "data": {...}} a line.

    A broken last line is what a killed run leaves: it is left out and noted. Anywhere else it is an error.

    Raises:
        ResultsError: a line in the middle is no record; names file and line.
    """
    lines = path.read_bytes().splitlines()
    for number, line in enumerate(lines, start=1):
        try:
            record = json.loads(line)
            step, data = int(record["step"]), numbers(record["data"])
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            if number == len(lines):
                notes.append(f"{path}: line {number} is cut off and left out")
                return
            raise ResultsError(
                f'{path}, line {number}: not a record {{"step": ..., "data": {{...}}}} ({error!r}); '
                "is this verl's file logger's output? Remove the line, or give another file"
            ) from error
        yield step, data


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
