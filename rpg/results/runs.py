"""Reads runs from metrics.jsonl (verl's file logger) and the files beside it."""

import json
import math
import os
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd

from rpg.checks.fingerprint import HISTORY
from rpg.methods.labels import method_of_config, method_of_name
from rpg.results.run_settings import (
    BENCHMARK_OF,
    CONFIG,
    ENVIRONMENT,
    LeftOut,
    ResultsError,
    judge_of_config,
    read_mapping,
    setting,
)

METRICS = "metrics.jsonl"
ACCURACY = re.compile(r"val-core/(?P<data_source>.+)/acc/mean@\d+", re.DOTALL)

Record = tuple[int, dict[str, float]]  # step, metrics
Filter = Callable[[str], bool]  # selects the metrics to read by name
Parsed = TypeVar("Parsed")


def is_accuracy(metric: str) -> bool:
    """Return whether a metric is a validation accuracy, which tables read."""
    return ACCURACY.fullmatch(metric) is not None


def read_lines(path: Path, parse: Callable[[Any], Parsed], notes: list[str] | None = None) -> Iterator[Parsed]:
    """Yield parse(value) for a file with one JSON value per line.

    A killed run leaves an incomplete last line: it is skipped with a note in `notes`, or an error without `notes`.
    Only b"\\n" ends a line: loggers do not escape U+2028 and U+0085.

    Raises:
        ResultsError: a line that is not JSON, or that `parse` rejects; names file and line.
    """
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            try:
                parsed = parse(json.loads(line))
            except (ValueError, LookupError, TypeError, AttributeError) as error:
                if notes is not None and not line.endswith(b"\n"):
                    notes.append(f"{path}, line {number} is cut off")
                    return
                raise ResultsError(f"{path}, line {number}: {type(error).__name__}: {error!s:.200}") from error
            yield parsed


def frame(records: Iterable[Record], notes: list[str]) -> pd.DataFrame:
    """Return one row per step and one column per metric: NaN if it was not logged, inf if it was not finite.

    Of two records of a step the later one wins. A step smaller than the last one marks a resume: later steps of the
    earlier part are dropped with a note.
    """
    by_step: dict[int, dict[str, float]] = {}
    last = -1
    for step, metrics in records:
        if step < last:
            first = min(earlier for earlier in by_step if earlier > step)
            notes.append(f"resumed at step {step}: steps {first} to {last} of the earlier part are replaced")
            by_step = {earlier: data for earlier, data in by_step.items() if earlier <= step}
        by_step.setdefault(step, {}).update(metrics)
        last = step
    return pd.DataFrame(list(by_step.values()), index=pd.Index(by_step, name="step", dtype="int64"))


def read_metrics(path: Path, notes: list[str], keep: Filter = lambda name: True) -> pd.DataFrame:
    """Read the log of verl's file logger, {"step": int, "data": {...}} per line, into a `frame`.

    Skips values that are not numbers, such as tables and texts. Raises ResultsError for a line that is not a record.
    """

    def record(line: Any) -> Record:
        if type(line["step"]) is not int or line["step"] < 0:
            raise ValueError(f"step {line['step']!r:.60} is not one of 0, 1, 2, ...")
        numbers = {
            name: float(value) if math.isfinite(value) else math.inf
            for name, value in line["data"].items()
            if keep(name) and isinstance(value, (int, float)) and not isinstance(value, bool)
        }
        return line["step"], numbers

    return frame(read_lines(path, record, notes), notes)


@dataclass
class RunLog:
    """A run's log, configuration and environment.

    Attributes:
        path: the log. directory: the run's directory.
        metrics: steps x metrics, as `frame` makes it.
        config: the resolved configuration, or {}. environment: environment.json, or {}.
        notes: what was left out, replaced or guessed.
    """

    name: str
    path: Path
    directory: Path
    metrics: pd.DataFrame
    config: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def method(self) -> str:
        """The paper's name of the method, else the run's name."""
        return method_of_config(self.config) or method_of_name(self.name) or self.name

    @property
    def judge(self) -> str:
        """The verifier that scored its answers (docs/judges.md); "not recorded" without a configuration."""
        return judge_of_config(self.config) or "not recorded"

    @property
    def last_step(self) -> int:
        """The last step in the log."""
        return int(self.metrics.index[-1])

    @property
    def planned_steps(self) -> int | None:
        """trainer.total_training_steps; None without a configuration."""
        return setting(self.config, "trainer.total_training_steps")

    @property
    def stopped_early(self) -> bool:
        """Whether steps are missing at the end; a run that only validates has none."""
        if setting(self.config, "trainer.val_only") or self.planned_steps is None:
            return False
        return self.last_step < self.planned_steps

    def series(self, metric: str) -> pd.Series:
        """Return the finite values of a metric by step; may be empty."""
        if metric not in self.metrics:
            return pd.Series(dtype=float)
        column = self.metrics[metric]
        return column.loc[np.isfinite(column)].rename(None)

    @property
    def accuracy_metrics(self) -> dict[str, str]:
        """Metric of the log -> data_source, for the metrics val-core/<data_source>/acc/mean@k."""
        matches = {name: ACCURACY.fullmatch(name) for name in self.metrics}
        return {name: match["data_source"] for name, match in matches.items() if match}

    def accuracies(self) -> dict[str, pd.Series]:
        """Return benchmark -> Mean@k by step. The mean@1 of a file with each problem k times is Mean@k, too.

        Raises:
            ResultsError: one benchmark under two data_source spellings at the same step.
        """
        by_benchmark: dict[str, pd.Series] = {}
        for metric, source in self.accuracy_metrics.items():
            benchmark = BENCHMARK_OF.get(source, source)
            both = pd.concat([by_benchmark.get(benchmark, pd.Series(dtype=float)), self.series(metric)]).sort_index()
            if both.index.has_duplicates:
                raise ResultsError(
                    f"{self.path}, step {both.index[both.index.duplicated()][0]}: {metric} is a second value of "
                    f"{benchmark}; evaluate one file of each benchmark, with one data_source spelling"
                )
            by_benchmark[benchmark] = both
        return {benchmark: points for benchmark, points in by_benchmark.items() if len(points)}


def load_runs(paths: Iterable[Path], notes: list[str], keep: Filter = lambda name: True) -> list[RunLog]:
    """Return the runs in `paths`: run directories, folders of them, metrics files; each run once.

    A run that cannot be read is skipped with a note (LeftOut).

    Raises:
        ResultsError: no run can be read.
    """
    runs: list[RunLog] = []
    logs = {os.path.realpath(log): log for path in paths for log in find_logs(path, notes)}
    for log in logs.values():
        try:
            run = load_run(log, keep)
            if run.metrics.index.empty:
                raise ResultsError(f"{log}: no step in it yet")
            runs.append(run)
        except (ResultsError, OSError) as error:
            notes.append(LeftOut(f"{error}; left out"))
    if not runs:
        raise ResultsError("; ".join(notes))
    count = Counter(run.name for run in runs)
    for run in runs:
        if count[run.name] > 1:
            run.name = f"{run.name} [{run.directory}]"
    return runs


def find_logs(path: Path, notes: list[str]) -> list[Path]:
    """Return the log of a run, or the logs of all runs below a folder."""
    if path.is_file():
        return [path]
    logs = []
    for folder, below, files in os.walk(path):
        if METRICS in files:
            logs.append(Path(folder, METRICS))
            below.clear()  # do not search inside a run's directory
        below.sort()
    if not logs:
        notes.append(LeftOut(f"{path}: {f'no {METRICS} there' if path.exists() else 'no such file'}; left out"))
    return logs


def load_run(path: Path, keep: Filter = lambda name: True) -> RunLog:
    """Read a run from its log and the files beside it.

    Raises:
        ResultsError: one of them cannot be read.
    """
    notes: list[str] = []
    metrics = read_metrics(path, notes, keep)
    directory = path.parent
    config, environment = (
        read_mapping(file) if (file := directory / name).exists() else {} for name in (CONFIG, ENVIRONMENT)
    )
    if not config:
        notes.append("no config.yaml beside it: the method is read from the name, the planned steps are unknown")
    name = setting(config, "trainer.experiment_name") or directory.resolve().name
    run = RunLog(str(name), path, directory, metrics, config, environment, notes)
    history = directory / HISTORY  # changed settings of a resume (rpg.resume_changed)
    starts = read_lines(history, lambda start: (start["after_step"], start["changed"])) if history.exists() else ()
    for step, changed in starts:
        notes += [f"after step {step}: {key} {before!r} -> {after!r}" for key, (before, after) in changed.items()]
    for metric in metrics:
        if steps := list(metrics.index[np.isinf(metrics[metric])]):
            more = f" and {len(steps) - 1} more" if len(steps) > 1 else ""
            notes.append(LeftOut(f"{metric} is not finite at step {steps[0]}{more}; left out"))
    run.accuracies()  # reject it here, so that other runs can still be shown
    return run
