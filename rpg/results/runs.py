"""A run, and how it is read from what loggers left on disk."""

import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rpg.methods.labels import method_of_config, method_of_name
from rpg.results.benchmarks import benchmark_of
from rpg.results.config import keep_usable, setting
from rpg.results.experiments import judge_of_config, settings
from rpg.results.records import (
    LeftOut,
    Record,
    ResultsError,
    assemble,
    brief,
    has_file,
    read_jsonl,
    read_mapping,
    usable,
)
from rpg.results.tensorboard import PATTERN, event_files, read_events
from rpg.results.wandb_offline import read_wandb

METRICS = "metrics.jsonl"
CONFIG = "config.yaml"
ENVIRONMENT = "environment.json"
HISTORY = "history.jsonl"  # of starts
ACCURACY = re.compile(r"val-core/(?P<data_source>.+)/acc/mean@\d+", re.DOTALL)
EARLIER = "metrics.previous.jsonl"  # the part before a resume in directories of version 0.1.0's first months


@dataclass
class Run:
    """One run: its history by step, and what is known of how it was made.

    Attributes:
        path: what it was read from. directory: where its other files lie.
        kind: metrics.jsonl, wandb or tensorboard.
        config: resolved configuration, {} where there is none. environment: environment.json, likewise.
        history: step -> metric -> value.
        notes: what had to be left out, replaced or guessed.
    """

    name: str
    path: Path
    directory: Path
    kind: str
    history: dict[int, dict[str, float]]
    config: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def method(self) -> str:
        """The paper's name of the method; the run's own name where it has none."""
        return method_of_config(self.config) or method_of_name(self.name) or self.name

    @property
    def judge(self) -> str:
        """Who scored its answers (docs/judges.md); "not recorded" without a configuration."""
        return judge_of_config(self.config) or "not recorded"

    @property
    def last_step(self) -> int:
        """The last step in the log."""
        return max(self.history)

    @property
    def planned_steps(self) -> int | None:
        """trainer.total_training_steps; None where the configuration is not known."""
        return setting(self.config, "trainer.total_training_steps")

    @property
    def stopped_early(self) -> bool:
        """Whether steps are missing at the end. A run that only validates plans none."""
        if setting(self.config, "trainer.val_only"):
            return False
        return self.planned_steps is not None and self.last_step < self.planned_steps

    def series(self, metric: str) -> list[tuple[int, float]]:
        """(step, value) of a metric, in order; without NaN and infinities."""
        return [(step, data[metric]) for step, data in self.history.items() if usable(data.get(metric, math.nan))]

    def minutes(self) -> dict[int, float]:
        """Step -> minutes of training until its end, validations and saves aside; {} where a step lacks its time."""
        elapsed, found = 0.0, {}
        for step, data in self.history.items():
            took = data.get("timing_s/step", math.nan if step else 0.0) - data.get("timing_s/save_checkpoint", 0.0)
            elapsed += took / 60
            found[step] = elapsed
        return found if usable(elapsed) else {}

    def unusable(self, metric: str) -> list[int]:
        """The steps at which a metric is NaN or infinite."""
        return [step for step, data in self.history.items() if metric in data and not usable(data[metric])]

    @property
    def accuracy_metrics(self) -> dict[str, str]:
        """Metric of the log -> benchmark, for the metrics val-core/<data_source>/acc/mean@k."""
        names = dict.fromkeys(metric for data in self.history.values() for metric in data)
        matches = {metric: ACCURACY.fullmatch(metric) for metric in names}
        return {metric: benchmark_of(match["data_source"]) for metric, match in matches.items() if match}

    def accuracies(self) -> dict[str, list[tuple[int, float]]]:
        """Benchmark -> (step, Mean@k) in order; two spellings of one benchmark are refused.

        A file that holds each problem k times gives mean@1, whose mean over its rows is Mean@k all the same.

        Raises:
            ResultsError: one benchmark under two data_source spellings at the same step.
        """
        found: dict[str, dict[int, float]] = {}
        for metric, benchmark in self.accuracy_metrics.items():
            for step, value in self.series(metric):
                points = found.setdefault(benchmark, {})
                if step in points:
                    raise ResultsError(
                        f"{self.path}, step {step}: {metric} is a second value of {benchmark}; "
                        "evaluate one file of each benchmark, with one data_source spelling"
                    )
                points[step] = value
        return {benchmark: sorted(points.items()) for benchmark, points in found.items()}


def load_runs(paths: Iterable[Path], notes: list[str]) -> list[Run]:
    """The runs in `paths`: run directories, folders of them, metrics files, W&B and TensorBoard logs.

    What cannot be read is noted (LeftOut), and the others are loaded.

    Raises:
        ResultsError: there is no run that can be read.
    """
    runs: list[Run] = []
    seen: set[Path] = set()
    for log in [log for path in paths for log in find_logs(path, notes)]:
        real = Path(os.path.realpath(log))  # Path.resolve raises where links go in circles
        if real in seen:
            notes.append(f"{log}: named twice, counted once")
            continue
        seen.add(real)
        try:
            run = load_run(log)
        except (ResultsError, OSError) as error:
            notes.append(LeftOut(f"{error}; left out"))
            continue
        twin = next((other for other in runs if _same(run, other)), None)
        if not run.history:
            notes.append(LeftOut(f"{log}: no step in it yet; left out"))
        elif twin:
            notes.append(f"{log}: the same numbers as {twin.path}; counted once")
        else:
            runs.append(run)
    if not runs:
        raise ResultsError("; ".join(notes))
    runs = join_resumed(runs)
    tell_names_apart(runs, notes)
    return runs


def _same(run: Run, other: Run) -> bool:
    return run.history == other.history and settings(run.config, seeds=True) == settings(other.config, seeds=True)


def find_logs(path: Path, notes: list[str]) -> list[Path]:
    """What to read in a path of the command line: the log of one run, or those of the directories in it."""
    try:
        found = _logs(path, notes)
        if not found:
            raise ResultsError(
                f"{path}: no run there; give a directory with {METRICS}, a W&B offline directory, a .wandb file "
                "or TensorBoard event files"
            )
    except (ResultsError, OSError) as error:
        notes.append(LeftOut(f"{error}; left out"))
        return []
    return found


def _logs(path: Path, notes: list[str]) -> list[Path]:
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise ResultsError(f"{path}: {'neither file nor directory' if path.exists() else 'no such file or directory'}")
    if any([has_file(path / METRICS), has_file(path / EARLIER)]):  # a list: both are looked at
        return [path / METRICS]
    if wandb := sorted(path.glob("*.wandb")):
        return wandb
    if event_files(path):
        return [path]
    logs: list[Path] = []
    for child in sorted(child for child in path.iterdir() if child.is_dir() and not child.is_symlink()):
        try:
            logs += _logs(child, notes)
        except (ResultsError, OSError) as error:
            notes.append(LeftOut(f"{error}; left out"))
    return logs


def load_run(path: Path) -> Run:
    """Read one run; the kind of log follows from the file's name.

    Raises:
        ResultsError: the log cannot be read. Of the files beside it those that cannot are left out, and noted.
    """
    notes: list[str] = []
    records: Iterable[Record]
    directory = path if path.is_dir() else path.parent
    name, config = None, {}
    if path.is_dir() or path.match(PATTERN):
        kind, records = "tensorboard", read_events(path, notes)
    elif path.suffix == ".wandb":
        kind, wandb = "wandb", read_wandb(path, notes)
        name, records = wandb.name, wandb.records
        config = keep_usable(wandb.config, str(path), notes)
    elif path.suffix == ".jsonl":
        kind = METRICS
        files = [directory / EARLIER, path] if path.name == METRICS else [path]
        records = (record for file in files if file.is_file() for record in read_jsonl(file, notes))
    else:
        raise ResultsError(f"{path}: unknown kind of file; known are *.jsonl, *.wandb and {PATTERN}")
    history = assemble(records, notes)
    config = config or _beside(directory, CONFIG, notes)
    name = name or setting(config, "trainer.experiment_name") or _name_of(path, directory)
    run = Run(str(name), path, directory, kind, history, config, _beside(directory, ENVIRONMENT, notes), notes)
    if not config:
        notes.append("no config.yaml beside it: the method is read from the name, the planned steps are not known")
    if kind == METRICS:
        changed_settings(directory, notes)
    for metric in run.accuracy_metrics:
        notes += not_shown(run, metric)
    run.accuracies()  # refused here, while other runs can still be shown
    return run


def changed_settings(directory: Path, notes: list[str]) -> None:
    """Note the settings under which a run was gone on with (rpg.resume_changed), from its history.jsonl."""
    file = directory / HISTORY
    if not has_file(file):
        return
    try:
        starts = [json.loads(line) for line in file.read_text(encoding="utf-8").split("\n") if line]
        for start in starts:
            for key, (before, after) in start["changed"].items():
                notes.append(f"after step {start['after_step']}: {key} {brief(before)} -> {brief(after)}")
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        notes.append(LeftOut(f"{file}: not a history of starts ({type(error).__name__}); left out"))


def not_shown(run: Run, metric: str) -> list[str]:
    """A note of the steps at which a metric is no number; [] where it always is one."""
    steps = run.unusable(metric)
    shown = ", ".join(map(str, steps[:5])) + (f" and {len(steps) - 5} more" if len(steps) > 5 else "")
    return [LeftOut(f"{metric} is not finite at step {shown}; left out")] if steps else []


def _name_of(path: Path, directory: Path) -> str:
    return path.stem if path.suffix == ".jsonl" and path.name != METRICS else directory.resolve().name


def _beside(directory: Path, name: str, notes: list[str]) -> dict[str, Any]:
    """A file of settings in the directory, or in the one above it; {} where there is none that can be used."""
    for file in (directory / name, directory.parent / name):
        try:
            if has_file(file):
                content = read_mapping(file)
                return keep_usable(content, str(file), notes) if name == CONFIG else content
        except (ResultsError, OSError) as error:
            notes.append(LeftOut(f"{error}; left out"))
            return {}
    return {}


def join_resumed(runs: list[Run]) -> list[Run]:
    """Put a run and its continuation together: W&B writes one directory for each start.

    A continuation has the name of an earlier run, the same settings and seeds but for how it is resumed, and
    begins after step 1. Of several such runs it goes on with the newest.
    """
    joined: list[Run] = []
    for run in runs:
        first = next((earlier for earlier in reversed(joined) if _continues(run, earlier)), None)
        if first is None:
            joined.append(run)
            continue
        notes = [*first.notes, *run.notes, f"continued in {run.path}"]
        first.history = assemble([*first.history.items(), *run.history.items()], notes)
        first.notes = notes
    return joined


def _continues(run: Run, earlier: Run) -> bool:
    alike = run.kind == earlier.kind == "wandb" and run.name == earlier.name and min(run.history) > 1
    return alike and settings(run.config, seeds=True) == settings(earlier.config, seeds=True)


def tell_names_apart(runs: list[Run], notes: list[str]) -> None:
    """Give runs of one name the names of their directories as well, and say so."""
    for name, count in Counter(run.name for run in runs).items():
        if count > 1:
            notes.append(f"{count} runs are called {name}; they are told apart by their directories")
            for run in runs:
                if run.name == name:
                    run.name = f"{name} [{run.directory}]"
