"""Build one published problem set: read, filter, deduplicate and write in one pass of bounded memory."""

import hashlib
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from tqdm import tqdm

from rpg.data.parquet import Problem, repeated_rows, write_parquet
from rpg.data.published import Source, problem_in, to_problem
from rpg.data.readers import DataError, Rows, read_file

EXCLUDED = "stands in an excluded file"


@dataclass
class LeftOut:
    """Rows that a build does not write: how many for each reason, and the place of the first."""

    counts: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)

    def add(self, reason: str, place: str) -> None:
        """Count one row."""
        self.counts[reason] += 1
        self.first.setdefault(reason, place)

    def lines(self) -> Iterator[str]:
        """Yield the report as text."""
        for reason, count in self.counts.most_common():
            yield f"  {count} left out: {reason} (first: {self.first[reason]})"


@dataclass
class Report:
    """What became of the rows of one build."""

    read: int = 0
    kept: int = 0
    written: int = 0
    left_out: LeftOut = field(default_factory=LeftOut)

    def lines(self) -> Iterator[str]:
        """Yield the report as text."""
        yield f"{self.read} rows read, {self.kept} problems kept, {self.written} rows written"
        yield from self.left_out.lines()


def digest(text: str) -> bytes:
    """Return 16 bytes that two texts share when they differ in nothing but white space."""
    return hashlib.blake2b(" ".join(text.split()).encode("utf-8", "replace"), digest_size=16).digest()


def problem_keys(path: Path) -> set[bytes]:
    """Return the digests of all problems in a file, for `exclude`: test problems stay out of training.

    Reads what `build` reads: built files and published ones, of any set.
    Raises DataError where not one problem is found: such a file would exclude nothing.
    """
    texts = (problem_in(row, place) for place, row in read_file(path))
    keys = {digest(text) for text in texts if text and text.strip()}
    if not keys:
        raise DataError(f"{path}: no problem in it to exclude; give another file")
    return keys


def distinct_problems(rows: Rows, source: Source, report: Report, exclude: Collection[bytes]) -> Iterator[Problem]:
    """Yield each usable problem once, counting in `report` why the other rows go.

    Memory: two short hashes for each distinct problem. Of a problem with two answers the first is kept, and the others
    are reported. Raises DataError at the end where not one problem is usable.
    """
    seen: dict[bytes, bytes] = {}
    for place, row in tqdm(rows, source.name, unit=" rows", disable=None):  # None: only on a terminal
        report.read += 1
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
        report.left_out.add(result, place)
    if not report.kept:
        reasons = "; ".join(report.lines())
        raise DataError(f"{source.name}: no usable problem in the input ({reasons}); give a file of this set")


def build(source: Source, rows: Rows, out: Path, repeat: int | None = None, exclude: Collection[bytes] = ()) -> Report:
    """Write `out`/NAME.parquet from published rows and return what became of them.

    Raises DataError where not one problem is usable; then nothing is written.
    """
    report = Report()
    problems = distinct_problems(rows, source, report, exclude)
    report.written = write_parquet(repeated_rows(problems, repeat or source.repeat), out / source.file_name)
    return report
