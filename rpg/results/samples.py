"""Validation samples on disk: how sure Mean@k is, and pass@k.

verl writes them where trainer.validation_data_dir says, one JSON object a sample in <step>.jsonl, without
the data_source; a sample's benchmark is found through the validation files of the run's configuration.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rpg.data.published import question
from rpg.data.readers import DataError, read_file
from rpg.results.benchmarks import benchmark_of
from rpg.results.config import setting
from rpg.results.records import LeftOut, brief, has_file, read_lines
from rpg.results.runs import Run

RESAMPLES = 2000
# What results read of a sample, and the types of it; numpy's booleans are numbers in JSON, Python's are not.
SAMPLE: dict[str, type | tuple[type, ...]] = {
    "input": str,
    "output": str,
    "gts": (str, int, float),
    "acc": (bool, int, float),
}


@dataclass(frozen=True)
class Samples:
    """Of one benchmark at one step: correct answers and samples of every problem, in one order."""

    step: int
    correct: tuple[int, ...]
    total: tuple[int, ...]

    @property
    def k(self) -> int:
        """Samples of each problem; the fewest, where they differ."""
        return min(self.total)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Percentile bootstrap of the mean over samples: what another draw of problems might have given.

        Problems are drawn with replacement, their samples are kept; seeded, so that a table repeats. A draw's mean
        is its correct samples by its samples, as verl's is.
        """
        means = np.array(self.correct) / np.array(self.total)
        weights = np.array(self.total) / max(self.total)  # all 1.0 where each problem has as many samples
        drawn = np.random.default_rng(0).integers(len(means), size=(RESAMPLES, len(means)))
        drawn_means = (weights * means)[drawn].mean(axis=1) / weights[drawn].mean(axis=1)
        low, high = np.quantile(drawn_means, [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)

    def pass_at(self, k: int) -> float:
        """Mean over problems of the unbiased estimate of P(one of k samples is correct)."""
        return float(np.mean([pass_at_k(n, c, k) for c, n in zip(self.correct, self.total, strict=True)]))


def pass_at_k(n: int, c: int, k: int) -> float:
    """1 - C(n-c, k) / C(n, k), the unbiased estimate from n samples of which c are correct.

    Raises:
        ValueError: k above n, or c outside 0..n.
    """
    if not 1 <= k <= n or not 0 <= c <= n:
        raise ValueError(f"pass@{k} cannot be estimated from n={n} samples with c={c} correct")
    if n - c < k:
        return 1.0
    return 1.0 - float(np.prod(1.0 - k / np.arange(n - c + 1, n + 1)))


def sample_file(run: Run, step: int) -> Path | None:
    """The file with the samples of a validation, or None where the run wrote none.

    Raises:
        ResultsError, OSError: there is something by that name that is no file, or cannot be one.
    """
    written = setting(run.config, "trainer.validation_data_dir")
    folders = [run.directory / "validation", *([Path(written)] if written else [])]
    return next((file for folder in folders if has_file(file := folder / f"{step}.jsonl")), None)


def sample_lines(file: Path, needed: Iterable[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Yield (line number, sample) of a file of validation samples; each has a problem and what is `needed`.

    Raises:
        ResultsError: a line that is no sample; names file, line and remedy.
    """

    def sample(line: Any) -> dict[str, Any]:
        for key, types in SAMPLE.items():
            if key in ("input", "gts", *needed) and not isinstance(line[key], types):
                raise TypeError(f"{key} is {brief(line[key])}")
        return line

    yield from read_lines(file, sample, "a validation sample")


def read_samples(run: Run, step: int, benchmarks: Iterable[str]) -> dict[str, Samples]:
    """Benchmark -> samples of the validation at `step`; {} where the run wrote none.

    Raises:
        ResultsError: a line that is no sample, or samples that no benchmark can be told for.
    """
    file = sample_file(run, step)
    if file is None:
        return {}
    problems: dict[tuple[str, str], list[bool]] = {}
    for _, sample in sample_lines(file, ["acc"]):
        problems.setdefault((sample["input"], str(sample["gts"])), []).append(float(sample["acc"]) > 0)
    names = list(benchmarks)
    known = [] if len(names) == 1 else problem_texts(run)
    grouped: dict[str, list[list[bool]]] = {}
    for (text, _), outcomes in problems.items():
        told = names if len(names) == 1 else sorted({benchmark_of(source) for source in sources_of(text, known)})
        if len(told) != 1:
            where = f"of {' and of '.join(told)}" if told else "in none of data.val_files"
            run.notes.append(LeftOut(f"{file}: samples of a problem that is {where}; no interval, no pass@k"))
            return {}
        grouped.setdefault(told[0], []).append(outcomes)
    return {
        name: Samples(step, tuple(sum(o) for o in outcomes), tuple(len(o) for o in outcomes))
        for name, outcomes in grouped.items()
    }


def problem_texts(run: Run) -> list[tuple[str, set[str]]]:
    """(text, its data_sources) of every problem in the run's validation files that can be read, longest first."""
    files = setting(run.config, "data.val_files") or []
    found: dict[str, set[str]] = {}
    for name in [files] if isinstance(files, str) else files:
        try:
            for _, row in read_file(name):
                text, source = question(row), row.get("data_source")
                if text and text.strip() and isinstance(source, str):
                    found.setdefault(text.strip(), set()).add(source)
        except (DataError, OSError) as error:
            run.notes.append(LeftOut(f"{error}; samples of its problems cannot be told apart"))
    return sorted(found.items(), key=lambda item: -len(item[0]))


def sources_of(text: str, known: list[tuple[str, set[str]]]) -> list[str]:
    """The data_sources of the problem that a sample's input asks; several where several sets hold it, [] where none."""
    return sorted(next((sources for problem, sources in known if problem in text), ()))
