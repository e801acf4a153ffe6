"""Code shared by all builds: deduplication, a report of left-out rows, writing of training and test files."""

import hashlib
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tqdm import tqdm

from rpg.data.parquet import Problem, repeated_rows, schema_of, write_together
from rpg.data.readers import DataError

HYPHENS = str.maketrans("\u2212\u2010\u2011", "---")
SPLITS = ("train", "test")


@dataclass
class Report:
    """The rows of one build: read, kept, left out by reason with the place of the first."""

    read: int = 0
    kept: int = 0
    left_out: Counter[str] = field(default_factory=Counter)
    first: dict[str, str] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    def leave_out(self, reason: str, place: str) -> None:
        """Count one left-out row."""
        self.left_out[reason] += 1
        self.first.setdefault(reason, place)

    def lines(self) -> Iterator[str]:
        """Yield the report as text."""
        if self.read:
            yield f"{self.read} rows read, {self.kept} problems kept"
        for reason, count in self.left_out.most_common():
            yield f"  {count} left out: {reason} (first: {self.first[reason]})"
        yield from (f"note: {text}" for text in self.notes)


def digest(text: str) -> bytes:
    """Return 16 bytes, equal for texts that differ only in white space or in their Unicode form.

    The form: composed or not, invisible characters such as U+FEFF, and the sign for minus.
    """
    if not text.isascii():
        composed = unicodedata.normalize("NFC", text).translate(HYPHENS)
        text = "".join(character for character in composed if unicodedata.category(character) != "Cf")
    return hashlib.blake2b(" ".join(text.split()).encode("utf-8", "replace"), digest_size=16).digest()


def distinct_problems(
    results: Iterable[tuple[str, Problem | str]], report: Report, exclude: Collection[bytes] = ()
) -> Iterator[Problem]:
    """Yield each problem once. Rows without a problem, repeated or excluded ones are counted in `report`.

    Memory: two short hashes for each distinct problem. Of a problem with two answers the first is kept.

    Args:
        results: place of a row, and its problem or the reason to leave out the row.
        exclude: digests of problems to leave out.
    """
    answers: dict[bytes, bytes] = {}
    for place, result in tqdm(results, unit=" rows", disable=None):  # None: show only on a terminal
        report.read += 1
        if isinstance(result, str):
            report.leave_out(result, place)
            continue
        key, answer = digest(result.text), digest(result.ground_truth or "")
        if key in exclude:
            report.leave_out("in a file of --exclude", place)
        elif key in answers:
            other = "" if answers[key] == answer else " with another answer"
            report.leave_out(f"repeats an earlier problem{other}", place)
        else:
            answers[key] = answer
            report.kept += 1
            yield result


def write_splits(out: Path, name: str, problems: Sequence[Problem], *, template: str | None = None) -> dict[Path, int]:
    """Write `out`/NAME_train.parquet and `out`/NAME_test.parquet, both or neither; return their rows.

    An empty split has no file.

    Raises DataError if there is no problem, or if a file of an earlier build, which may have the same problems, would
    remain beside a new one.
    """
    files = {}
    for split in SPLITS:
        path = out / f"{name}_{split}.parquet"
        if of_split := [problem for problem in problems if problem.split == split]:
            files[path] = repeated_rows(of_split, template=template)
        elif path.exists():
            raise DataError(f"{path} is of an earlier build and may have the same problems; remove it or change --out")
    if not files:
        raise DataError(f"{name}: no problem to write; raise --train-size or --test-size")
    return write_together(files, schema_of(problems))
