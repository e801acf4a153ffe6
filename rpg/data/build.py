"""Build one published problem set: read, filter, deduplicate and write in one pass of bounded memory."""

import hashlib
import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from rpg.data.parquet import Problem, repeated_rows, write_together
from rpg.data.published import Source, problems_in, to_problem
from rpg.data.readers import DataError, Rows, read_file

PROGRESS_SECONDS = 5.0
EXCLUDED = "stands in an excluded file"


@dataclass
class Report:
    """What became of the rows of one build: counts, and the first row of each reason to leave one out."""

    read: int = 0
    kept: int = 0
    written: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    examples: dict[str, str] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """Yield the report as text."""
        yield f"{self.read} rows read, {self.kept} problems kept, {self.written} rows written"
        for reason, count in self.left_out.most_common():
            yield f"  {count} left out: {reason} (first: {self.examples[reason]})"


class Progress:
    """Prints a line every PROGRESS_SECONDS."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self.say, self.last = say, time.monotonic()

    def __call__(self, text: str) -> None:
        if time.monotonic() - self.last > PROGRESS_SECONDS:
            self.last = time.monotonic()
            self.say(text)


def digest(text: str) -> bytes:
    """Return 16 bytes that two texts share when they differ in nothing but white space."""
    return hashlib.blake2b(" ".join(text.split()).encode("utf-8", "replace"), digest_size=16).digest()


def problem_keys(path: Path) -> set[bytes]:
    """Return the digests of all problems in a file, for `exclude`: test problems stay out of training.

    Reads what `build` reads: built files and published ones, of any set.
    Raises DataError where not one problem is found: such a file would exclude nothing.
    """
    keys = {digest(text) for place, row in read_file(path) for text in problems_in(row, place)}
    if not keys:
        raise DataError(f"{path}: no problem in it to exclude; give another file")
    return keys


def distinct_problems(
    rows: Rows, source: Source, report: Report, exclude: Collection[bytes], say: Callable[[str], None]
) -> Iterator[Problem]:
    """Yield each usable problem once, counting in `report` why the other rows go.

    Memory: two short hashes for each distinct problem. Of a problem with two answers the first is kept, and the others
    are reported. Raises DataError at the end where not one problem is usable.
    """
    seen: dict[bytes, bytes] = {}
    progress = Progress(say)
    for place, row in rows:
        report.read += 1
        progress(f"{source.name}: {report.read} rows read, {report.kept} problems kept")
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
                result = "repeats an earlier problem" + ("" if earlier == answer else " with another answer")
        report.left_out[result] += 1
        report.examples.setdefault(result, place)
    if not report.kept:
        reasons = "; ".join(report.lines())
        raise DataError(f"{source.name}: no usable problem in the input ({reasons}); give a file of this set")


def build(
    source: Source,
    rows: Rows,
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
    written: Iterable[dict] = repeated_rows(problems, repeat or source.repeat)
    report.written = sum(write_together({out / source.file_name: written}).values())
    return report
