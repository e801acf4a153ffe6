"""The log of a run and the files beside it, read into a RunLog.

A log is metrics.jsonl, which verl's file logger writes, or TensorBoard event files (tensorboard.py).
"""

import filecmp
import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import numpy as np
import pandas as pd

from rpg.methods.labels import method_of_config, method_of_name
from rpg.results.config import (
    LeftOut,
    ResultsError,
    benchmark_of,
    has_file,
    judge_of_config,
    read_mapping,
    remove_unusable,
    setting,
    settings,
)
from rpg.results.log import Wanted, frame, read_lines, read_metrics
from rpg.results.tensorboard import read_events

METRICS = "metrics.jsonl"
CONFIG = "config.yaml"
ENVIRONMENT = "environment.json"
EVENTS = "events.out.tfevents.*"  # TensorBoard's
HISTORY = "history.jsonl"  # one line for each start of the run
ACCURACY = re.compile(r"val-core/(?P<data_source>.+)/acc/mean@\d+", re.DOTALL)


@dataclass
class RunLog:
    """What a run logged, and what is known of how it was made.

    Attributes:
        path: what was read. directory: where the run's other files are.
        metrics: steps x metrics, as `frame` makes it.
        config: the resolved configuration, {} where there is none. environment: environment.json, likewise.
        notes: what had to be left out, replaced or guessed.
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
        """The paper's name of the method; the run's own name where it has none."""
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
        """trainer.total_training_steps; None where the configuration is not known."""
        return setting(self.config, "trainer.total_training_steps")

    @property
    def stopped_early(self) -> bool:
        """Whether steps are missing at the end. A run that only validates plans none."""
        if setting(self.config, "trainer.val_only") or self.planned_steps is None:
            return False
        return self.last_step < self.planned_steps

    def series(self, metric: str) -> pd.Series:
        """The finite values of a metric by step; empty where there are none."""
        column = self._column(metric)
        return column.loc[np.isfinite(column)].rename(None)

    def _column(self, metric: str) -> pd.Series:
        """The column of a metric; NaN at every step where it was not logged."""
        return cast(pd.Series, self.metrics.get(metric, pd.Series(np.nan, self.metrics.index)))

    def minutes(self) -> pd.Series:
        """Minutes of training until the end of each step, without validations and saves; empty if a time is missing."""
        took = self._column("timing_s/step").where(self.metrics.index > 0, 0.0)
        took = took - self._column("timing_s/save_checkpoint").fillna(0.0)
        return took.cumsum() / 60 if np.isfinite(took).all() else pd.Series(dtype=float)

    def note_not_finite(self, metric: str) -> None:
        """Note the steps at which a metric is NaN or infinite."""
        steps = self.metrics.index[np.isinf(self._column(metric))]
        if len(steps):
            more = f" and {len(steps) - 5} more" if len(steps) > 5 else ""
            self.notes.append(
                LeftOut(f"{metric} is not finite at step {', '.join(map(str, steps[:5]))}{more}; left out")
            )

    @property
    def accuracy_metrics(self) -> dict[str, str]:
        """Metric of the log -> benchmark, for the metrics val-core/<data_source>/acc/mean@k."""
        matches = {name: match for name in self.metrics if (match := ACCURACY.fullmatch(name))}
        return {name: benchmark_of(match["data_source"]) for name, match in matches.items()}

    def accuracies(self) -> dict[str, pd.Series]:
        """Benchmark -> Mean@k by step. A file that holds each problem k times logs mean@1, whose mean is Mean@k too.

        Raises:
            ResultsError: one benchmark under two data_source spellings at the same step.
        """
        found: dict[str, pd.Series] = {}
        for metric, benchmark in self.accuracy_metrics.items():
            both = pd.concat([found.get(benchmark, pd.Series(dtype=float)), self.series(metric)]).sort_index()
            if both.index.has_duplicates:
                raise ResultsError(
                    f"{self.path}, step {both.index[both.index.duplicated()][0]}: {metric} is a second value of "
                    f"{benchmark}; evaluate one file of each benchmark, with one data_source spelling"
                )
            found[benchmark] = both
        return {benchmark: points for benchmark, points in found.items() if len(points)}


def is_accuracy(metric: str) -> bool:
    """Whether a metric is a validation accuracy: what tables read of a log."""
    return ACCURACY.fullmatch(metric) is not None


def load_runs(paths: Iterable[Path], notes: list[str], wanted: Wanted = lambda name: True) -> list[RunLog]:
    """The runs in `paths`: run directories, folders of them, metrics files, TensorBoard logs.

    What cannot be read is noted (LeftOut), and the others are loaded.

    Raises:
        ResultsError: there is no run that can be read.
    """
    runs: list[RunLog] = []
    seen: set[Path] = set()
    for log in [log for path in paths for log in find_logs(path, notes)]:
        real = Path(os.path.realpath(log))  # Path.resolve raises where links go in circles
        if real in seen:
            notes.append(f"{log}: named twice, counted once")
            continue
        seen.add(real)
        try:
            run = load_run(log, wanted)
            twin = next((other for other in runs if _same(run, other)), None)
        except (ResultsError, OSError) as error:
            notes.append(LeftOut(f"{error}; left out"))
            continue
        if not len(run.metrics.index):
            notes.append(LeftOut(f"{log}: no step in it yet; left out"))
        elif twin:
            notes.append(f"{log}: the same numbers as {twin.path}; counted once")
        else:
            runs.append(run)
    if not runs:
        raise ResultsError("; ".join(notes))
    for name, count in Counter(run.name for run in runs).items():
        if count > 1:
            notes.append(f"{count} runs are called {name}; they are told apart by their directories")
            for run in runs:
                run.name = f"{name} [{run.directory}]" if run.name == name else run.name
    return runs


def _same(run: RunLog, other: RunLog) -> bool:
    """Whether a log is a copy of another one's file, and of the same settings and seeds."""
    files = run.path.is_file() and other.path.is_file() and filecmp.cmp(run.path, other.path, shallow=False)
    return files and settings(run.config, seeds=True) == settings(other.config, seeds=True)


def find_logs(path: Path, notes: list[str]) -> list[Path]:
    """What to read in a path of the command line: the log of one run, or those of the directories in it."""
    try:
        logs = _logs(path, notes)
        if not logs:
            raise ResultsError(
                f"{path}: no run there; give a directory with {METRICS} or TensorBoard event files, or a folder of them"
            )
    except (ResultsError, OSError) as error:
        notes.append(LeftOut(f"{error}; left out"))
        return []
    return logs


def _logs(path: Path, notes: list[str]) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise ResultsError(f"{path}: {'neither file nor directory' if path.exists() else 'no such file or directory'}")
    if has_file(path / METRICS):
        return [path / METRICS]
    if any(path.glob(EVENTS)):
        return [path]
    children = sorted(child for child in path.iterdir() if child.is_dir() and not child.is_symlink())
    logs: list[Path] = []
    for child in children:
        try:
            logs += _logs(child, notes)
        except (ResultsError, OSError) as error:
            notes.append(LeftOut(f"{error}; left out"))
    return logs


def load_run(path: Path, wanted: Wanted = lambda name: True) -> RunLog:
    """Read one run; the kind of log follows from the file's name.

    Raises:
        ResultsError: the log cannot be read. A file beside it that cannot be read is left out, and noted.
    """
    notes: list[str] = []
    directory = path if path.is_dir() else path.parent
    if path.is_dir() or path.match(EVENTS):
        metrics = frame(read_events(sorted(path.glob(EVENTS)) if path.is_dir() else [path], wanted, notes), notes)
    elif path.suffix == ".jsonl":
        metrics = read_metrics(path, notes, wanted)
    else:
        raise ResultsError(f"{path}: unknown kind of file; known are *.jsonl and {EVENTS}")
    config = _beside(directory, CONFIG, notes)
    notes += [LeftOut(message) for message in remove_unusable(config)]
    if not config:
        notes.append("no config.yaml beside it: the method is read from the name, the planned steps are not known")
    of_file = path.stem if path.suffix == ".jsonl" and path.name != METRICS else directory.resolve().name
    name = setting(config, "trainer.experiment_name") or of_file
    run = RunLog(str(name), path, directory, metrics, config, _beside(directory, ENVIRONMENT, notes), notes)
    if path.name == METRICS:
        note_changed_settings(directory, notes)
    for metric in run.accuracy_metrics:
        run.note_not_finite(metric)
    run.accuracies()  # refused here, while other runs can still be shown
    return run


def note_changed_settings(directory: Path, notes: list[str]) -> None:
    """Note the settings under which a run was gone on with (rpg.resume_changed), from its history.jsonl."""
    file = directory / HISTORY
    try:
        if not has_file(file):
            return
        for start in read_lines(file, lambda line: (line["after_step"], line["changed"].items()), "a start", None):
            notes += [f"after step {start[0]}: {key} {before!r} -> {after!r}" for key, (before, after) in start[1]]
    except (ResultsError, OSError, ValueError, TypeError, AttributeError) as error:
        notes.append(LeftOut(f"{file}: not a history of starts ({type(error).__name__}); left out"))


def _beside(directory: Path, name: str, notes: list[str]) -> dict[str, Any]:
    """A file of settings in the directory, or in the one above it; {} where there is none that can be used."""
    for file in (directory / name, directory.parent / name):
        try:
            if has_file(file):
                return read_mapping(file)
        except (ResultsError, OSError) as error:
            notes.append(LeftOut(f"{error}; left out"))
            return {}
    return {}
