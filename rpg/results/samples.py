"""Samples on disk: intervals of Mean@k, pass@k, and answers to look at.

Those of validations are in the run's validation/<step>.jsonl, one JSON object per sample, without data_source. The
data_source is the log's only one, else that of the validation file (data.val_files) that contains the sample's problem.
"""

import json
import math
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from rpg.data.published import question
from rpg.data.readers import DataError, read_file
from rpg.diagnostics import printable
from rpg.files.atomic import CONFIG, SAMPLES
from rpg.registry.datasets import benchmark_of
from rpg.results.messages import Note, ResultsError, end_of
from rpg.results.run_settings import setting
from rpg.results.runs import RunLog, read_lines, read_mapping
from rpg.rewards.extract import ANSWER_END

RESAMPLES = 2000
SHOWN_TAIL = 300  # characters of a problem and of an answer in a terminal, from the end, where the answer's line stands
FIELDS = frozenset({"input", "gts", "output", "acc"})  # required fields of a sample
PROBLEM = "input, gts"  # column that identifies a problem: its input and ground truth, which may be any JSON value
TOLERANCE = 1e-4  # rounding difference between a logged accuracy and the mean of its samples


@dataclass(frozen=True)
class Samples:
    """The samples of one benchmark at one step: sum of the accuracies and number of the samples per problem."""

    correct: tuple[float, ...]
    total: tuple[int, ...]
    binary: bool = True  # every sample is right or wrong; a custom reward function may return other accuracies

    @property
    def k(self) -> int:
        """The smallest number of samples of a problem."""
        return min(self.total)

    def interval(self, level: float = 0.95) -> tuple[float, float]:
        """Return a percentile bootstrap interval over problems for the mean accuracy of the samples.

        Problems are drawn with replacement and keep their samples. The seed is fixed, so a table is reproducible.
        """
        correct, total = np.array(self.correct), np.array(self.total)
        drawn = np.random.default_rng(0).integers(len(total), size=(RESAMPLES, len(total)))
        means = correct[drawn].sum(axis=1) / total[drawn].sum(axis=1)
        low, high = np.quantile(means, [(1 - level) / 2, (1 + level) / 2])
        return float(low), float(high)

    def pass_at(self, k: int) -> float:
        """Return the mean over problems of the unbiased estimate of P(one of k samples is correct), if `binary`."""
        return float(np.mean([pass_at_k(n, int(c), k) for c, n in zip(self.correct, self.total, strict=True)]))


def pass_at_k(n: int, c: int, k: int) -> float:
    """1 - C(n-c, k) / C(n, k), the unbiased estimate from n >= k samples of which c are correct."""
    if n - c < k:
        return 1.0
    return 1.0 - float(np.prod(1.0 - k / np.arange(n - c + 1, n + 1)))


def read_samples(run: RunLog, step: int) -> tuple[pd.DataFrame, list[Note]]:
    """Return the samples of the validation at `step`, one per row, with data_source and PROBLEM, and notes.

    The frame is empty if the run wrote none.

    Samples whose mean accuracy differs from the logged one belong to another run or are incomplete: they are left out
    with a note.

    Raises:
        ResultsError: a line is not a sample, or a problem's data_source is ambiguous.
    """

    def sample(line: Any) -> dict[str, Any]:
        if not math.isfinite(line["acc"]):
            raise ValueError(f"acc is {line['acc']!r:.60}")
        return line if line.keys() >= FIELDS else {key: line[key] for key in FIELDS}  # KeyError names the missing field

    folder = run.directory / SAMPLES  # also of a run that was moved
    if not folder.is_dir():
        folder = Path(setting(run.config, "samples_dir") or folder)
    file = folder / f"{step}.jsonl"
    logged = {source: run.series(metric).get(step) for metric, source in run.validations("acc").items()}
    logged = {source: value for source, value in logged.items() if value is not None}
    notes: list[Note] = []
    samples = pd.DataFrame(read_lines(file, sample)[0] if file.exists() and logged else [], dtype=object)
    if samples.empty:
        return pd.DataFrame(columns=[*FIELDS, "data_source", PROBLEM]), notes
    samples[PROBLEM] = [json.dumps(problem) for problem in zip(samples["input"], samples["gts"], strict=True)]
    if len(logged) == 1:
        [samples["data_source"]] = logged
    else:
        sources = _sources(file, set(samples["input"]), set(logged), run)
        samples["data_source"] = [sources[text] for text in samples["input"]]
    for source, group in samples.groupby("data_source", sort=False):
        mean = group["acc"].astype(float).mean()
        if abs(mean - logged[str(source)]) > TOLERANCE:
            text = (
                f"{file}: its samples of {source} have accuracy {mean:.4f}, the log has "
                f"{logged[str(source)]:.4f} at step {step}: samples of another run, or not all of them, as of failed "
                "rewards; left out"
            )
            notes.append(Note(text, left_out=True))
            samples = samples.loc[samples["data_source"] != source, :]
    return samples, notes


def samples_at(run: RunLog, step: int) -> tuple[dict[str, Samples], list[Note]]:
    """Return benchmark -> samples of the validation at `step`, and notes on unusable ones."""
    try:
        samples, notes = read_samples(run, step)
    except (ResultsError, OSError) as error:
        return {}, [Note(f"{error}; no interval, no pass@k", left_out=True)]
    groups = samples.groupby("data_source", sort=False)
    return {benchmark_of(str(source)): samples_of_problems(group) for source, group in groups}, notes


def pass_by_step(run: RunLog, k: int) -> tuple[dict[str, pd.Series], list[Note]]:
    """Return benchmark -> pass@k by step, of k or more samples per problem that are right or wrong, and notes.

    From the samples: verl logs best@k only for validations with rollout.val_kwargs.n above 1, and as a bootstrap with
    replacement, which is below pass@k.
    """
    by_benchmark: dict[str, dict[int, float]] = {}
    lacking: dict[str, str] = {}
    notes: list[Note] = []
    for step in sorted({int(step) for points in run.accuracies().values() for step in points.index}):
        found, own_notes = samples_at(run, step)
        notes += own_notes
        for name, samples in found.items():
            if samples.binary and samples.k >= k:
                by_benchmark.setdefault(name, {})[step] = samples.pass_at(k)
            else:
                few = f"no validation has {k} samples of every problem"
                lacking[name] = few if samples.binary else "acc is not 0 or 1; return acc beside score"
    reasons = {name: why for name, why in lacking.items() if name not in by_benchmark}
    notes += [Note(f"no pass@{k} of {name}: {why}", left_out=not by_benchmark) for name, why in reasons.items()]
    if not by_benchmark and not reasons:
        notes.append(Note(f"no pass@{k}: no saved samples", left_out=True))
    return {name: pd.Series(points) for name, points in by_benchmark.items()}, notes


def _sources(file: Path, inputs: set[str], logged: set[str], run: RunLog) -> dict[str, str]:
    """Return sample input -> the logged data_source whose validation file contains the problem."""
    rows = rows_of(run, inputs, f"to tell the samples of {', '.join(sorted(logged))} apart")
    sources: dict[str, str] = {}
    for text in inputs:
        names = {str(row["data_source"]) for row in rows[text]}
        benchmarks = {benchmark_of(name) for name in names}
        candidates = sorted(source for source in logged if benchmark_of(source) in benchmarks)
        if len(candidates) != 1:
            where = f"of {' and of '.join(candidates)}" if candidates else "that is in none of data.val_files"
            raise ResultsError(f"{file}: samples of a problem {where} ({setting(run.config, 'val_files')})")
        sources[text] = candidates[0]
    return sources


def val_files(run: RunLog) -> list[str]:
    """Return the validation files of a run."""
    files = setting(run.config, "val_files") or []
    return [files] if isinstance(files, str) else files


def missing_files(run: RunLog) -> list[str]:
    """Return the validation files of a run that are not at their place."""
    return [name for name in val_files(run) if not Path(name).is_file()]


def rows_of(run: RunLog, inputs: set[str], purpose: str) -> dict[str, list[dict[str, Any]]]:
    """Return sample input -> the rows of the validation files with its problem; [] if there is none.

    Raises ResultsError with the purpose if a file cannot be read.
    """
    problems: dict[str, list[dict[str, Any]]] = {}
    for name in val_files(run):
        try:
            for _, row in read_file(name):
                problems.setdefault((question(row) or "").strip(), []).append(row)
        except DataError as error:
            raise ResultsError(f"{error}; needed {purpose}") from error
    longest_first = sorted(filter(None, problems), key=len, reverse=True)
    return {text: next((problems[problem] for problem in longest_first if problem in text), []) for text in inputs}


def has_few_shot(run: RunLog) -> bool:
    """Return whether a validation file that is still there has few-shot prompts, whose rows say how an answer ends."""
    here = [name for name in val_files(run) if Path(name).is_file() and Path(name).suffix == ".parquet"]
    schemas = [pq.ParquetFile(name).schema for name in here]
    columns = {schema.column(index).path for schema in schemas for index in range(len(schema))}
    return f"extra_info.{ANSWER_END}" in columns


def samples_of_problems(samples: pd.DataFrame) -> Samples:
    """Sum the samples of each problem."""
    accuracies = samples["acc"].astype(float)
    sums = accuracies.groupby(samples[PROBLEM], sort=False).agg(["sum", "size"])
    return Samples(tuple(sums["sum"]), tuple(map(int, sums["size"])), bool(accuracies.isin([0, 1]).all()))


def newest_answers(run: Path) -> Path:
    """Return the file of a run's newest answers. Raises ResultsError if there is none."""
    config = read_mapping(run / CONFIG) if (run / CONFIG).is_file() else {}
    named = [setting(config, name) for name in ("samples_dir", "rollout_dir")]
    folders = [run / SAMPLES, *(Path(name) for name in named if name)]
    files = [file for folder in folders for file in folder.glob("*.jsonl")]
    if not files:
        raise ResultsError(
            f"{run}: no saved answers yet; validations save theirs (trainer.test_freq), steps theirs with "
            "trainer.rollout_data_dir=DIR"
        )
    return max(files, key=lambda file: file.stat().st_mtime)


def answer_lines(run: Path, count: int, width: int) -> Iterator[str]:
    """Yield the last `count` answers of the newest file, as lines of at most `width` columns."""
    file = newest_answers(run)
    samples = read_lines(file, lambda line: (line["input"], line["output"], line["gts"], line["score"]))[0]
    yield f"{file}: {len(samples)} answers"
    for problem, answer, truth, score in samples[-count:]:
        yield ""
        for label, text in (("problem", problem), ("answer", answer), ("truth", truth), ("score", score)):
            shown = end_of(printable(" ".join(str(text).split())), SHOWN_TAIL)
            yield textwrap.fill(f"{label:<8} {shown}", width, subsequent_indent=" " * 9)
