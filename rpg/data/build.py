"""Build one problem set: read, filter, deduplicate and write in one pass of bounded memory."""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rpg.data.published import problems_in, to_problem
from rpg.data.readers import DataError, read_file
from rpg.data.schema import Problem, repeated_rows, write_parquet
from rpg.data.sources import Source

PROGRESS_SECONDS = 5.0
DUPLICATE = "repeats an earlier problem"
CONFLICT = "repeats an earlier problem with another answer"
EXCLUDED = "stands in an excluded file"


@dataclass
class Report:
    """What became of the rows of one build."""

    read: int = 0
    kept: int = 0
    written: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """Yield the report as text: rows read, kept, written, and each reason with its first row."""
        yield f"{self.read} rows read, {self.kept} problems kept, {self.written} rows written"
        for reason, count in self.left_out.most_common():
            yield f"  {count} left out: {reason} (first: {self.examples[reason]})"


def digest(text: str) -> bytes:
    """Return 16 bytes that two texts share when they differ in nothing but white space."""
    return hashlib.blake2b(" ".join(text.split()).encode("utf-8", "replace"), digest_size=16).digest()


def problem_keys(path: Path) -> set[bytes]:
    """Return the digests of all problems in a file, for `exclude`: test problems stay out of training.

    Reads what `build` reads: built files and published ones, of whichever set.
    Raises DataError where not one problem is found: a guard that knows none lets everything through.
    """
    keys = {digest(text) for place, row in read_file(path) for text in problems_in(row, place)}
    if not keys:
        raise DataError(f"{path}: no problem in it to exclude; every row is empty, or there is none. Give another file")
    return keys


def distinct_problems(
    rows: Iterable[tuple[str, dict[str, Any]]],
    source: Source,
    report: Report,
    exclude: Collection[bytes],
    say: Callable[[str], None],
) -> Iterator[Problem]:
    """Yield each usable problem once, counting in `report` why the other rows go.

    Memory: two short hashes for each distinct problem; no text is kept. Of a problem that stands
    there with two answers the first is kept, and the others are reported.
    """
    seen: dict[bytes, bytes] = {}
    last = time.monotonic()
    for place, row in rows:
        report.read += 1
        if time.monotonic() - last > PROGRESS_SECONDS:
            last = time.monotonic()
            say(f"{source.name}: {report.read} rows read, {report.kept} problems kept")
        result = to_problem(row, source, place)
        if isinstance(result, Problem):
            key, answer = digest(result.text), digest(result.ground_truth)
            earlier = seen.get(key)
            if key in exclude:
                result = EXCLUDED
            elif earlier is None:
                seen[key] = answer
                report.kept += 1
                yield result
                continue
            else:
                result = DUPLICATE if earlier == answer else CONFLICT
        report.left_out[result] += 1
        report.examples.setdefault(result, place)


def build(
    source: Source,
    rows: Iterable[tuple[str, dict[str, Any]]],
    out: Path,
    repeat: int | None = None,
    exclude: Collection[bytes] = (),
    say: Callable[[str], None] = print,
) -> Report:
    """Write `out`/NAME.parquet from published rows and return what became of them.

    Raises DataError where not one problem is usable; then nothing is written.
    """
    report = Report()
    problems = distinct_problems(rows, source, report, exclude, say)
    path = out / source.file_name
    written = repeated_rows(_at_least_one(problems, source, report), repeat or source.repeat)
    report.written = write_parquet(written, path)
    return report


def _at_least_one(problems: Iterator[Problem], source: Source, report: Report) -> Iterator[Problem]:
    yield from problems
    if not report.kept:
        reasons = "; ".join(report.lines())
        raise DataError(f"{source.name}: no usable problem in the input ({reasons}); give a file of this set")
