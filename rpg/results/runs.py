"""Runs read from their logs: metrics.jsonl (verl's file logger) or TensorBoard event files, and the files beside it."""

import filecmp
import json
import math
import os
import re
from array import array
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
import pandas as pd

from rpg.checks.fingerprint import HISTORY
from rpg.methods.labels import method_of_config, method_of_name
from rpg.results.settings import (
    BENCHMARK_OF,
    CONFIG,
    ENVIRONMENT,
    UNREADABLE,
    LeftOut,
    ResultsError,
    judge_of_config,
    read_mapping,
    setting,
    settings,
)

METRICS = "metrics.jsonl"
EVENTS = "events.out.tfevents.*"  # TensorBoard's
ACCURACY = re.compile(r"val-core/(?P<data_source>.+)/acc/mean@\d+", re.DOTALL)
LARGEST = 3.4028235e38  # of float32; larger values overflow in sums and pictures
LARGEST_STEP = 2**53

Record = tuple[int, dict[str, float]]  # step, metrics
Wanted = Callable[[str], bool]  # whether a metric of this name is read
Parsed = TypeVar("Parsed")


def is_accuracy(metric: str) -> bool:
    """Whether a metric is a validation accuracy: what tables read of a log."""
    return ACCURACY.fullmatch(metric) is not None


def read_lines(path: Path, parse: Callable[[Any], Parsed], what: str, notes: list[str] | None) -> Iterator[Parsed]:
    """Yield parse(value) of a file with one JSON value a line; empty lines are skipped.

    A killed run leaves a last line without its end: with `notes` it is skipped and noted, without them it is an error.
    Lines end in b"\\n" alone: loggers write U+2028 and U+0085 into texts as they are.

    Raises:
        ResultsError: a line that is no JSON, or that `parse` cannot use; names file and line.
    """
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.strip():
                continue
            try:
                parsed = parse(json.loads(str(line, "utf-8")))
            except UNREADABLE as error:
                if notes is not None and not line.endswith(b"\n"):
                    notes.append(f"{path}, line {number} is cut off: it was not written to its end")
                    return
                raise ResultsError(
                    f"{path}, line {number}: not {what} ({type(error).__name__}: {error!s:.200}); "
                    "remove the line, or give the file of a run that ended"
                ) from error
            yield parsed


def as_step(value: Any) -> int:
    """A step as a logger counts them. Raises ValueError for anything but 0, 1, 2, ..."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= LARGEST_STEP:
        raise ValueError(f"step {value!r:.60} is not one of 0, 1, 2, ...")
    if value != int(value):
        raise ValueError(f"step {value} is no integer")
    return int(value)


def numbers(values: dict[str, Any], wanted: Wanted) -> dict[str, float]:
    """The wanted entries that are numbers, as floats; loggers also hold tables and texts. NaN becomes inf."""
    return {
        name: float(value) if abs(value) <= LARGEST else math.inf
        for name, value in values.items()
        if wanted(name) and isinstance(value, (int, float)) and not isinstance(value, bool)
    }


def frame(records: Iterable[Record], notes: list[str]) -> pd.DataFrame:
    """One row a step, one column a metric: NaN where a metric was not logged, inf where it was not finite.

    Of two records of a step the later one wins. A step that goes back is a resumption: later steps of the earlier part
    belong to an abandoned branch and are dropped, which is noted. Memory: 8 bytes a value.
    """
    steps, columns = array("q"), {}
    for step, data in records:
        if steps and step < steps[-1]:
            kept = bisect_right(steps, step)
            notes.append(f"resumed at step {step}: steps {steps[kept]} to {steps[-1]} of the earlier part are replaced")
            for values in (steps, *columns.values()):
                del values[kept:]
        if not steps or steps[-1] != step:
            steps.append(step)
        for name, value in data.items():
            values = columns.setdefault(name, array("d"))
            values.extend([math.nan] * (len(steps) - len(values)))
            values[-1] = value
    for values in columns.values():
        values.extend([math.nan] * (len(steps) - len(values)))
    return pd.DataFrame(columns, index=pd.Index(np.array(steps, dtype=np.int64), name="step"))


def read_metrics(path: Path, notes: list[str], wanted: Wanted = lambda name: True) -> pd.DataFrame:
    """The wanted metrics of a file that verl's file logger wrote: {"step": int, "data": {...}} a line; as `frame`.

    Raises:
        ResultsError: a line that is no record; names file and line.
    """

    def record(line: Any) -> Record:
        return as_step(line["step"]), numbers(line["data"], wanted)

    return frame(read_lines(path, record, 'a record {"step": ..., "data": {...}}', notes), notes)


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
            shown = ", ".join(map(str, steps[:5]))
            self.notes.append(LeftOut(f"{metric} is not finite at step {shown}{more}; left out"))

    @property
    def accuracy_metrics(self) -> dict[str, str]:
        """Metric of the log -> data_source, for the metrics val-core/<data_source>/acc/mean@k."""
        matches = {name: ACCURACY.fullmatch(name) for name in self.metrics}
        return {name: match["data_source"] for name, match in matches.items() if match}

    def accuracies(self) -> dict[str, pd.Series]:
        """Benchmark -> Mean@k by step. A file that holds each problem k times logs mean@1, whose mean is Mean@k too.

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
    except OSError as error:
        notes.append(LeftOut(f"{error}; left out"))
        return []
    if not logs:
        wanted = f"give a directory with {METRICS} or TensorBoard event files, or a folder of them"
        notes.append(LeftOut(f"{path}: {'no run there' if path.exists() else 'no such file'}; {wanted}; left out"))
    return logs


def _logs(path: Path, notes: list[str]) -> list[Path]:
    if path.is_file():
        return [path]
    if (path / METRICS).exists():
        return [path / METRICS]
    if any(path.glob(EVENTS)):
        return [path]
    logs: list[Path] = []
    for child in sorted(path.iterdir() if path.is_dir() else ()):
        if child.is_dir() and not child.is_symlink():
            try:
                logs += _logs(child, notes)
            except OSError as error:
                notes.append(LeftOut(f"{error}; left out"))
    return logs


def load_run(path: Path, wanted: Wanted = lambda name: True) -> RunLog:
    """Read one run; the kind of log follows from the file's name.

    Raises:
        ResultsError: the log cannot be read. A file beside it that cannot be used is left out, and noted.
    """
    notes: list[str] = []
    if path.match(EVENTS) or (path.is_dir() and path.name != METRICS):
        from rpg.results.tensorboard import read_events

        directory, files = (path, sorted(path.glob(EVENTS))) if path.is_dir() else (path.parent, [path])
        events = read_events(files, wanted, notes)
        metrics = frame(((step, numbers(scalars, wanted)) for step, scalars in events), notes)
    elif path.suffix == ".jsonl":
        directory, metrics = path.parent, read_metrics(path, notes, wanted)
    else:
        raise ResultsError(f"{path}: unknown kind of file; known are *.jsonl and {EVENTS}")
    config = _beside(directory, CONFIG, notes)
    if not config:
        notes.append("no config.yaml beside it: the method is read from the name, the planned steps are not known")
    of_file = path.stem if path.suffix == ".jsonl" and path.name != METRICS else directory.resolve().name
    name = setting(config, "trainer.experiment_name") or of_file
    run = RunLog(str(name), path, directory, metrics, config, _beside(directory, ENVIRONMENT, notes), notes)
    if path.name == METRICS:
        note_changed_settings(directory, notes)
    for metric in run.accuracy_metrics:
        run.note_not_finite(metric)
    try:
        _ = (run.method, run.judge, settings(config), len(metrics.index) and run.stopped_early)
    except (TypeError, AttributeError, LookupError) as error:
        notes.append(LeftOut(f"{CONFIG}: a setting has another type than it must have ({error}); left out"))
        run.config = {}
    run.accuracies()  # refused here, while other runs can still be shown
    return run


def note_changed_settings(directory: Path, notes: list[str]) -> None:
    """Note the settings under which a run was gone on with (rpg.resume_changed), from its history.jsonl."""
    file = directory / HISTORY
    if not file.exists():
        return
    try:
        for step, changed in read_lines(
            file, lambda line: (line["after_step"], line["changed"].items()), "a start", None
        ):
            notes += [f"after step {step}: {key} {before!r} -> {after!r}" for key, (before, after) in changed]
    except (OSError, ValueError, TypeError) as error:
        notes.append(LeftOut(f"{file}: not a history of starts ({type(error).__name__}); left out"))


def _beside(directory: Path, name: str, notes: list[str]) -> dict[str, Any]:
    """A file of settings in the directory, or in the one above it; {} where there is none that can be used."""
    file = next((file for file in (directory / name, directory.parent / name) if file.exists()), None)
    try:
        return read_mapping(file) if file else {}
    except (ResultsError, OSError) as error:
        notes.append(LeftOut(f"{error}; left out"))
        return {}
