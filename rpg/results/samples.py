"""Validation samples on disk: how sure Mean@k is, and pass@k.

verl writes them where trainer.validation_data_dir says, one JSON object a sample in <step>.jsonl, without the
data_source: the benchmark of a sample is that of the validation file (data.val_files) that holds its problem.
"""

import statistics
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from rpg.data.published import question
from rpg.data.readers import DataError, read_file
from rpg.results.config import LeftOut, ResultsError, benchmark_of, has_file, setting
from rpg.results.log import read_lines
from rpg.results.runs import RunLog

RESAMPLES = 2000
TOLERANCE = 1e-4  # between a logged accuracy and the mean of its samples, whose sums are rounded differently
# What results read of a sample, and the types of it; numpy's booleans are numbers in JSON, Python's are not.
TYPES: dict[str, type | tuple[type, ...]] = {
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

    @property
    def mean(self) -> float:
        """The share of correct samples, which verl logs as the accuracy."""
        return sum(self.correct) / sum(self.total)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Percentile bootstrap of `mean`: what another draw of problems might have given.

        Problems are drawn with replacement and keep their samples; seeded, so that a table repeats.
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


def sample_file(run: RunLog, step: int) -> Path | None:
    """The file with the samples of a validation, or None where the run wrote none.

    It is looked for beside the log first. trainer.validation_data_dir may by now hold another run's samples, so a file
    from there is noted.

    Raises:
        ResultsError, OSError: something by that name is no file, or cannot be one.
    """
    beside = run.directory / "validation" / f"{step}.jsonl"
    if has_file(beside):
        return beside
    written = setting(run.config, "trainer.validation_data_dir")
    if not written or not has_file(elsewhere := Path(written) / f"{step}.jsonl"):
        return None
    run.notes.append(f"samples from {elsewhere} (trainer.validation_data_dir), as there are none beside the log")
    return elsewhere


def sample_lines(file: Path, needed: Iterable[str]) -> Iterator[dict[str, Any]]:
    """Yield the samples of a file; each has a problem and what is `needed`.

    Raises:
        ResultsError: a line that is no sample; names file, line and remedy.
    """

    def sample(line: Any) -> dict[str, Any]:
        for key in ("input", "gts", *needed):
            if not isinstance(line[key], TYPES[key]):
                raise TypeError(f"{key} is {line[key]!r:.60}")
        if "acc" in needed and not 0 <= line["acc"] <= 1:
            raise ValueError(f"acc is {line['acc']!r:.60}")
        return line

    yield from read_lines(file, sample, "a validation sample", None)


def read_samples(run: RunLog, step: int, accuracies: Mapping[str, pd.Series]) -> dict[str, Samples]:
    """Benchmark -> samples of the validation at `step`; {} where the run wrote none.

    accuracies: what the log has, benchmark -> accuracy by step. Samples that disagree with it are left out, and noted.

    Raises:
        ResultsError: a line that is no sample, or samples that no benchmark can be told for.
    """
    file = sample_file(run, step)
    if file is None:
        return {}
    problems: dict[tuple[str, str], list[float]] = {}
    for sample in sample_lines(file, ["acc"]):
        problems.setdefault((sample["input"], str(sample["gts"])), []).append(float(sample["acc"]))
    single = len(accuracies) == 1
    known = [] if single else problem_texts(run)
    grouped: dict[str, list[list[float]]] = {}
    for (text, _), outcomes in problems.items():
        names = set(accuracies) if single else {benchmark_of(source) for source in sources_of(text, known)}
        if len(names) != 1:
            where = f"of {' and of '.join(sorted(names))}" if names else "in none of data.val_files"
            raise ResultsError(f"{file}: samples of a problem that is {where}")
        grouped.setdefault(names.pop(), []).append(outcomes)
    found: dict[str, Samples] = {}
    for name, outcomes in grouped.items():
        if check_agreement(run, file, name, [acc for one in outcomes for acc in one], accuracies.get(name), step):
            correct = tuple(sum(acc > 0 for acc in one) for one in outcomes)
            found[name] = Samples(step, correct, tuple(len(one) for one in outcomes))
    return found


def check_agreement(
    run: RunLog, file: Path, name: str, outcomes: list[float], logged: pd.Series | None, step: int
) -> bool:
    """Whether the mean of the samples is the accuracy that the log has; noted where it is not."""
    value = None if logged is None else logged.get(step)
    mean = statistics.fmean(outcomes)
    if value is None or abs(mean - value) <= TOLERANCE:
        return True
    run.notes.append(
        LeftOut(
            f"{file}: {mean:.4f} of its samples of {name} are correct, the log has {value:.4f} at step {step}: "
            "samples of another run, or not all of them; left out"
        )
    )
    return False


def problem_texts(run: RunLog) -> list[tuple[str, set[str]]]:
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
