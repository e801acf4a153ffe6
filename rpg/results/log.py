"""metrics.jsonl, as verl's file logger writes it, into a table of steps and metrics, in bounded memory."""

import json
import math
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from rpg.results.config import ResultsError

LARGEST = 3.4028235e38  # of float32; larger values overflow in sums and pictures
LARGEST_STEP = 2**53

Record = tuple[int, dict[str, float]]  # step, metrics
Wanted = Callable[[str], bool]  # whether a metric of this name is read
Parsed = TypeVar("Parsed")


def read_lines(path: Path, parse: Callable[[Any], Parsed], what: str, notes: list[str] | None) -> Iterator[Parsed]:
    """Yield parse(value) of a file with one JSON value a line; empty lines are skipped.

    A killed run leaves a last line without its end: with `notes` it is skipped and noted, without them it is an error.
    Lines end in b"\\n" alone: loggers write U+2028 and U+0085 into texts as they are.

    Raises:
        ResultsError: a line that is no JSON, or of which `parse` raises ValueError, KeyError or TypeError.
    """
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                parsed = parse(json.loads(line))
            except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
                if notes is not None and not line.endswith(b"\n"):
                    notes.append(f"{path}, line {number} is cut off: it was not written to its end")
                    return
                raise ResultsError(
                    f"{path}, line {number}: not {what} ({type(error).__name__}: {error!s:.200}); "
                    "remove the line, or give the file of a run that ended"
                ) from error
            yield parsed


def numbers(values: dict[str, Any], wanted: Wanted) -> dict[str, float]:
    """The wanted entries that are numbers, as floats; loggers also hold tables and texts. NaN becomes inf."""
    return {
        name: float(value) if abs(value) <= LARGEST else math.inf
        for name, value in values.items()
        if wanted(name) and isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def as_step(value: Any) -> int:
    """A step as a logger counts them. Raises ValueError for anything but 0, 1, 2, ..."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= LARGEST_STEP:
        raise ValueError(f"step {value!r:.60} is not one of 0, 1, 2, ...")
    if value != int(value):
        raise ValueError(f"step {value} is no integer")
    return int(value)


def frame(records: Iterable[Record], notes: list[str]) -> pd.DataFrame:
    """One row a step, one column a metric: NaN where a metric was not logged, inf where it was not finite.

    Of two records of a step the later one wins. A step that goes back is a resumption: later steps of the earlier part
    belong to an abandoned branch and are dropped, which is noted. Memory: 16 bytes a value while reading.
    """
    steps = array("q")
    columns: dict[str, tuple[array[int], array[float]]] = {}
    for step, data in records:
        if steps and step < steps[-1]:
            kept = bisect_right(steps, step)
            notes.append(f"resumed at step {step}: steps {steps[kept]} to {steps[-1]} of the earlier part are replaced")
            for where, values in ((steps, steps), *columns.values()):
                kept = bisect_right(where, step)
                del values[kept:]
                if values is not where:
                    del where[kept:]
        if not steps or steps[-1] != step:
            steps.append(step)
        for name, value in data.items():
            where, values = columns.setdefault(name, (array("q"), array("d")))
            if where and where[-1] == step:
                values[-1] = value
            else:
                where.append(step)
                values.append(value)
    index = pd.Index(np.array(steps, dtype=np.int64), name="step")
    series = (pd.Series(np.array(values), np.array(where)) for where, values in columns.values())
    made = pd.DataFrame(dict(enumerate(series)), index=index)
    made.columns = pd.Index(list(columns), dtype=object)  # any text, also one that is not UTF-8
    return made


def read_metrics(path: Path, notes: list[str], wanted: Wanted = lambda name: True) -> pd.DataFrame:
    """The wanted metrics of a file that verl's file logger wrote: {"step": int, "data": {...}} a line; as `frame`.

    Raises:
        ResultsError: a line that is no record; names file and line.
    """

    def record(line: Any) -> Record:
        return as_step(line["step"]), numbers(line["data"], wanted)

    return frame(read_lines(path, record, 'a record {"step": ..., "data": {...}}', notes), notes)
