"""A run's directory as one frame: metrics.jsonl (verl's file logger) with config.yaml and environment.json."""

import json
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import yaml

from rpg.dotted import leaves, value_at
from rpg.files.atomic import CONFIG, ENVIRONMENT, LEFT_OUT, METRICS
from rpg.logged import ALL_GROUPS, BATCH, VALIDATED, is_validation
from rpg.registry.datasets import benchmark_of
from rpg.registry.methods import label_of
from rpg.results.messages import LeftOut, ResultsError, about
from rpg.results.settings import judge_of

CHECKPOINTS = Path("checkpoints")  # where launch scripts put their runs
Keep = Callable[[str], bool]  # selects the metrics to read by name


@dataclass
class Run:
    """A run's directory.

    Attributes:
        frame: step x metric; NaN where a metric was not logged, inf where it was not finite.
        config: the resolved configuration, or {}. environment: environment.json, or {}.
        notes: what was left out, replaced or changed.
        failed: number of responses without a reward, by LEFT_OUT.
    """

    directory: Path
    name: str
    frame: pd.DataFrame
    config: dict[str, Any]
    environment: dict[str, Any]
    notes: list[str]
    failed: int = 0

    @property
    def method(self) -> str:
        """The paper's name of the method, else the run's name."""
        method, divergence = (value_at(self.config, f"rpg.{name}", "") for name in ("method", "divergence"))
        return label_of(method, divergence) or self.name

    @property
    def judge(self) -> str:
        """The verifier that scored its answers (docs/judges.md)."""
        return judge_of(self.config)

    @property
    def seed(self) -> str:
        """The seeds in its configuration; runs with equal seeds are paired."""
        return str([(key, value) for key, value in leaves(self.config) if key.endswith("seed") and value is not None])

    @property
    def last_step(self) -> int:
        """The last step in the log."""
        return int(self.frame.index[-1])

    @property
    def planned_steps(self) -> int | None:
        """trainer.total_training_steps; None without a configuration, or of an evaluation."""
        validates = value_at(self.config, "trainer.val_only")
        return None if validates else value_at(self.config, "trainer.total_training_steps")

    @property
    def stopped_early(self) -> bool:
        """Whether steps are missing at the end."""
        return self.planned_steps is not None and self.last_step < self.planned_steps

    def series(self, metric: str) -> pd.Series:
        """Return the finite values of a metric by step; may be empty."""
        column: Any = self.frame.get(metric, pd.Series(dtype=float))
        return column[np.isfinite(column)].rename(None)

    @property
    def training_reward(self) -> pd.Series:
        """The mean reward of training responses by step, of all groups where the filter logs it; may be empty."""
        of_all, of_batches = self.series(ALL_GROUPS), self.series(BATCH)
        return of_all.combine_first(of_batches) if len(of_all) else of_batches

    def validations(self, variable: str = "acc") -> dict[str, str]:
        """Return data_source -> metric, for the metrics val-core/<data_source>/<variable>/mean@k."""
        matches = [match for name in self.frame if (match := VALIDATED.fullmatch(name))]
        return {match["data_source"]: match[0] for match in matches if match["variable"] == variable}

    @cached_property
    def accuracies(self) -> pd.DataFrame:
        """Step x benchmark: Mean@k. The mean@1 of a file with each problem k times is Mean@k, too.

        Raises ResultsError: one benchmark under two data_source spellings at the same step.
        """
        columns: dict[str, pd.Series] = {}
        for source, metric in self.validations().items():
            benchmark, points = benchmark_of(source), self.series(metric)
            known = columns.get(benchmark, pd.Series(dtype=float))
            if len(twice := known.index.intersection(points.index)):
                raise ResultsError(f"{self.directory}, step {twice[0]}: {metric} is a second value of {benchmark}; "
                                   "evaluate one file of each benchmark, with one data_source spelling")  # fmt: skip
            columns[benchmark] = known.combine_first(points)
        return pd.DataFrame(columns).dropna(how="all").dropna(axis=1, how="all").sort_index()


def load(directory: Path, keep: Keep = lambda name: True) -> Run:
    """Read a run. Of two records of a step the later one counts; a resume replaces all steps after it.

    keep: the metrics to read.

    Raises ResultsError: one of its files cannot be read, or there is no step in the log.
    """
    config, environment = (
        read_mapping(file) if (file := directory / name).exists() else {} for name in (CONFIG, ENVIRONMENT)
    )
    records, notes = read_lines(directory / METRICS, _record)
    by_step: dict[int, dict[str, float]] = {}
    last = -1
    for step, data in records:
        if step < last:
            gone = [earlier for earlier in by_step if earlier > step]
            notes.append(f"resumed at step {step}: steps {gone[0]} to {last} of the earlier part are replaced")
            by_step = {earlier: kept for earlier, kept in by_step.items() if earlier <= step}
        kept = by_step.setdefault(step, {})
        for name in data:
            if is_validation(name) and kept.get(name, data[name]) != data[name]:
                notes.append(f"validated twice at step {step}: {name} is {data[name]:.4f}, was {kept[name]:.4f}")
        kept |= {name: value for name, value in data.items() if keep(name)}
        last = step
    if not by_step:
        raise ResultsError(f"{directory / METRICS}: no step in it yet")
    frame = pd.DataFrame(list(by_step.values()), index=pd.Index(by_step, name="step", dtype="int64"))
    if not config:
        notes.append("no config.yaml: its method and planned steps are unknown")
    for start in environment.get("starts", []):  # changed settings of a resume (rpg.resume_changed)
        changed = start["changed"].items()
        notes += [f"after step {start['after_step']}: {key} {old!r} -> {new!r}" for key, (old, new) in changed]
    for metric in frame:
        if steps := list(frame.index[np.isinf(frame[metric])]):
            notes.append(LeftOut(f"{metric} is not finite at step {', '.join(map(str, steps[:3]))}; left out"))
    failed = read_lines(file, lambda line: str(line["why"]))[0] if (file := directory / LEFT_OUT).exists() else []
    if failed:
        notes.append(f"failed rewards: {len(failed)}; accuracies count them as wrong, the training reward does not; "
                     f"{failed[-1]:.100} ({LEFT_OUT})")  # fmt: skip
    name = value_at(config, "trainer.experiment_name") or os.fsencode(directory.resolve().name).decode(errors="replace")
    run = Run(directory, str(name), frame, config, environment, notes, len(failed))
    for source in run.validations("reward").keys() - run.validations().keys():
        notes.append(LeftOut(f"no accuracy of {source}: the reward function returned no acc; left out"))
    if run.stopped_early:
        notes.append(f"at step {run.last_step} of {run.planned_steps}, still running or stopped early")
    _ = run.accuracies  # refuse them here, so that other runs can still be shown
    return run


def _record(line: Any) -> tuple[int, dict[str, float]]:
    """Return step and numbers of a line of the log; the logger writes NaN and Inf as null."""
    if type(line["step"]) is not int or not 0 <= line["step"] < 1 << 63:
        raise ValueError(f"step {line['step']!r:.60} is not one of 0, 1, 2, ...")
    numbers = {name: value for name, value in line["data"].items() if value is None or type(value) in (int, float)}
    return line["step"], {
        name: float(value) if value is not None and math.isfinite(value) else math.inf
        for name, value in numbers.items()
    }


def read_lines(path: Path, parse: Callable[[Any], Any], whole: bool = False) -> tuple[list[Any], list[str]]:
    """Return parse(value) for each line of JSON lines, and notes.

    whole: refuse an incomplete last line, as a killed run leaves it, instead of leaving it out with a note.

    Raises ResultsError: a line that is not JSON, or that `parse` rejects; names file and line.
    """
    parsed = []
    with open(path, "rb") as lines:  # only b"\n" ends a line: loggers do not escape U+2028 and U+0085
        for number, line in enumerate(lines, start=1):
            try:
                if line.strip():
                    parsed.append(parse(json.loads(line)))
            except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
                if not whole and not line.endswith(b"\n"):
                    return parsed, [f"line {number} of {path.name} is cut off"]
                why = f"no {error}" if isinstance(error, KeyError) else error
                raise ResultsError(f"{path}, line {number}: {why}; correct or remove the line") from error
    return parsed, []


def read_mapping(path: Path) -> dict[str, Any]:
    """Read a YAML or JSON file with a mapping. Raises ResultsError for other content."""
    try:
        content = yaml.load(path.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a date or number of YAML's that is none
        raise ResultsError(f"{path}: {' '.join(str(error).split())}; restore or remove it") from error
    if not isinstance(content, dict):
        raise ResultsError(f"{path}: holds no settings; restore or remove it")
    return content


def find(paths: Iterable[Path], files: Iterable[str] = (METRICS,)) -> tuple[list[Path], list[str]]:
    """Return the runs' directories in `paths` (each, or below it), and notes. files: any of these makes a run."""
    found, notes = [], []
    for path in paths:
        before, seen = len(found), set[str]()
        for folder, below, names in os.walk(path.parent if path.name == METRICS else path, followlinks=True):
            if (real := os.path.realpath(folder)) in seen:  # a link in a circle
                below.clear()
            elif not {*files}.isdisjoint(names):
                found.append(Path(folder))
                below.clear()  # do not search inside a run's directory
            seen.add(real)
            below.sort()
        if len(found) == before:
            notes.append(LeftOut(f"{path}: {f'no {METRICS} there' if path.exists() else 'no such file'}; left out"))
    return list({os.path.realpath(directory): directory for directory in found}.values()), notes


def load_runs(paths: Iterable[Path], keep: Keep = lambda name: True) -> tuple[list[Run], list[str]]:
    """Return the runs in `paths`, each once, and notes. A run that cannot be read is left out with a note.

    Raises ResultsError: no run can be read.
    """
    runs: list[Run] = []
    directories, notes = find(paths)
    for directory in directories:
        try:
            runs.append(load(directory, keep))
        except (ResultsError, OSError) as error:
            notes.append(LeftOut(f"{error}; left out"))
    if not runs:
        raise ResultsError("; ".join(notes))
    count = Counter(run.name for run in runs)
    for run in runs:
        if count[run.name] > 1:
            run.name = f"{run.name} [{run.directory}]"
    return runs, notes


def notes_of(runs: Iterable[Run]) -> list[str]:
    """Return the notes of runs, equal ones on several runs as one."""
    names: dict[str, list[str]] = {}
    for run in runs:
        for note in dict.fromkeys(run.notes):
            names.setdefault(note, []).append(run.name)
    return [about(", ".join(own), note) for note, own in names.items()]


def or_checkpoints(paths: list[Path]) -> list[Path]:
    """Return the paths, or ./checkpoints without any. Raises ResultsError if that does not exist."""
    if not paths and not CHECKPOINTS.is_dir():
        raise ResultsError(f"no {CHECKPOINTS}/ in {Path.cwd()}; give a run's directory")
    return paths or [CHECKPOINTS]
