"""Reads runs from metrics.jsonl (verl's file logger) and the files beside it."""

import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import pandas as pd
import yaml

from rpg.config.fingerprint import HISTORY, is_hash
from rpg.config.keys import KEYS, by_name
from rpg.data.readers import DataError, parse_json
from rpg.files.atomic import CONFIG, ENVIRONMENT, FINGERPRINT, LEFT_OUT, METRICS
from rpg.logged import ALL_GROUPS, BATCH, VALIDATED
from rpg.registry.datasets import benchmark_of
from rpg.registry.labels import method_of, method_of_name
from rpg.results.messages import Note, ResultsError
from rpg.results.run_settings import judge_of_config, setting

CHECKPOINTS = Path("checkpoints")  # where launch scripts put their runs
Record = tuple[int, dict[str, float]]  # step, metrics
Filter = Callable[[str], bool]  # selects the metrics to read by name
Parsed = TypeVar("Parsed")


def read_lines(path: Path, parse: Callable[[Any], Parsed], whole: bool = True) -> tuple[list[Parsed], tuple[Note, ...]]:
    """Return parse(value) for each line of a file with one JSON value per line, and notes.

    A killed run leaves an incomplete last line: an error, or with whole=False left out with a note.
    Only b"\\n" ends a line: loggers do not escape U+2028 and U+0085.

    Blank lines do not count.

    Raises:
        ResultsError: a line that is not JSON, or that `parse` rejects; names file and line.
    """
    parsed: list[Parsed] = []
    with open(path, "rb") as lines:
        for number, line in enumerate(lines, start=1):
            place = f"{path}, line {number}"
            try:
                if line.strip():
                    parsed.append(parse(parse_json(line, place)))
            except (ValueError, LookupError, TypeError, AttributeError, OverflowError) as error:
                if not whole and not line.endswith(b"\n"):
                    return parsed, (Note(f"{place} is cut off"),)
                if isinstance(error, DataError):
                    raise ResultsError(str(error)) from error
                shown = line.strip()[:60].decode(errors="replace")
                reason = str(error) if isinstance(error, ValueError) else f"{shown} is not a record of this file"
                raise ResultsError(f"{place}: {reason}; correct or remove the line") from error
    return parsed, ()


def frame(records: Iterable[Record]) -> tuple[pd.DataFrame, list[Note]]:
    """Return one row per step and one column per metric, and notes: NaN if not logged, inf if not finite.

    Of two records of a step the later one wins. A step smaller than the last one marks a resume: later steps of the
    earlier part are dropped with a note.
    """
    by_step: dict[int, dict[str, float]] = {}
    last, notes = -1, []
    for step, metrics in records:
        if step < last:
            first = min(earlier for earlier in by_step if earlier > step)
            notes.append(Note(f"resumed at step {step}: steps {first} to {last} of the earlier part are replaced"))
            by_step = {earlier: data for earlier, data in by_step.items() if earlier <= step}
        by_step.setdefault(step, {}).update(metrics)
        last = step
    return pd.DataFrame(list(by_step.values()), index=pd.Index(by_step, name="step", dtype="int64")), notes


def read_metrics(path: Path, keep: Filter = lambda name: True) -> tuple[pd.DataFrame, list[Note]]:
    """Read the log of verl's file logger, {"step": int, "data": {...}} per line, into a `frame` with notes.

    Skips values that are not numbers, such as tables and texts. Raises ResultsError for a line that is not a record.
    """

    def record(line: Any) -> Record:
        if type(line["step"]) is not int or not 0 <= line["step"] < 1 << 63:
            raise ValueError(f"step {line['step']!r:.60} is not one of 0, 1, 2, ...")
        numbers = {
            name: float(value) if value is not None and math.isfinite(value) else math.inf
            for name, value in line["data"].items()  # the logger writes NaN and Inf as null
            if keep(name) and (value is None or isinstance(value, (int, float))) and not isinstance(value, bool)
        }
        return line["step"], numbers

    records, cut_off = read_lines(path, record, whole=False)
    metrics, notes = frame(records)
    return metrics, [*cut_off, *notes]


@dataclass
class RunLog:
    """A run's log, configuration and environment.

    Attributes:
        path: the log. directory: the run's directory.
        metrics: steps x metrics, as `frame` makes it.
        config: the resolved configuration, or {}. environment: environment.json, or {}.
        notes: what was left out, replaced or guessed.
        failed: number of responses without a reward, by LEFT_OUT.
        contents: hashes of its data, model and user's code, by fingerprint.json, and of its last validation files.
    """

    name: str
    path: Path
    directory: Path
    metrics: pd.DataFrame
    config: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    notes: tuple[Note, ...] = ()
    failed: int = 0
    contents: dict[str, Any] = field(default_factory=dict)

    @property
    def method(self) -> str:
        """The paper's name of the method, else the run's name."""
        return (
            self.environment.get("method") or method_of(by_name(self.config)) or method_of_name(self.name) or self.name
        )

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
        return setting(self.config, "steps")

    @property
    def stopped_early(self) -> bool:
        """Whether steps are missing at the end; a run that only validates has none."""
        if setting(self.config, "val_only") or self.planned_steps is None:
            return False
        return self.last_step < self.planned_steps

    def series(self, metric: str) -> pd.Series:
        """Return the finite values of a metric by step; may be empty."""
        if metric not in self.metrics:
            return pd.Series(dtype=float)
        column = self.metrics[metric]
        return column.loc[np.isfinite(column)].rename(None)

    @property
    def training_reward(self) -> pd.Series:
        """The mean reward of training responses by step, of all groups where the filter logs it; may be empty."""
        of_all, of_batches = self.series(ALL_GROUPS), self.series(BATCH)
        return of_all.combine_first(of_batches) if len(of_all) else of_batches

    def validations(self, variable: Literal["acc", "reward"]) -> dict[str, str]:
        """Return metric of the log -> data_source, for the metrics val-core/<data_source>/<variable>/mean@k."""
        matches = {name: VALIDATED.fullmatch(name) for name in self.metrics}
        return {
            name: match["data_source"] for name, match in matches.items() if match and match["variable"] == variable
        }

    def accuracies(self) -> dict[str, pd.Series]:
        """Return benchmark -> Mean@k by step. The mean@1 of a file with each problem k times is Mean@k, too.

        Raises:
            ResultsError: one benchmark under two data_source spellings at the same step.
        """
        by_benchmark: dict[str, pd.Series] = {}
        for metric, source in self.validations("acc").items():
            benchmark = benchmark_of(source)
            both = pd.concat([by_benchmark.get(benchmark, pd.Series(dtype=float)), self.series(metric)]).sort_index()
            if both.index.has_duplicates:
                raise ResultsError(
                    f"{self.path}, step {both.index[both.index.duplicated()][0]}: {metric} is a second value of "
                    f"{benchmark}; evaluate one file of each benchmark, with one data_source spelling"
                )
            by_benchmark[benchmark] = both
        return {benchmark: points for benchmark, points in by_benchmark.items() if len(points)}


def other_contents(label: str, runs: Sequence[RunLog]) -> list[Note]:
    """Return a note if runs that count as seeds of one setting had files of other content."""
    known = [run.contents for run in runs if run.contents]
    keys = sorted({key for contents in known for key in contents})
    if differ := [key for key in keys if any(contents.get(key) != known[0].get(key) for contents in known)]:
        return [Note(f"{label}: its runs differ in {', '.join(differ)}, not in their seeds alone")]
    return []


def load_runs(paths: Iterable[Path], keep: Filter = lambda name: True) -> tuple[list[RunLog], list[Note]]:
    """Return the runs in `paths` and notes: run directories, folders of them, metrics files; each run once.

    A run that cannot be read is left out with a note.

    Raises:
        ResultsError: no run can be read.
    """
    runs: list[RunLog] = []
    logs, notes = find_logs(paths)
    for log in {os.path.realpath(log): log for log in logs}.values():
        try:
            run = load_run(log, keep)
            if run.metrics.index.empty:
                raise ResultsError(f"{log}: no step in it yet")
            runs.append(run)
        except (ResultsError, OSError) as error:
            notes.append(Note(f"{error}; left out", left_out=True))
    if not runs:
        raise ResultsError("; ".join(note.text for note in notes))
    count = Counter(run.name for run in runs)
    for run in runs:
        if count[run.name] > 1:
            run.name = f"{run.name} [{run.directory}]"
    return runs, notes


def or_checkpoints(paths: list[Path]) -> list[Path]:
    """Return the paths, or ./checkpoints without any. Raises ResultsError if that does not exist."""
    if not paths and not CHECKPOINTS.is_dir():
        raise ResultsError(f"no {CHECKPOINTS}/ in {Path.cwd()}; give a run's directory")
    return paths or [CHECKPOINTS]


def find_logs(paths: Iterable[Path], files_of_run: Iterable[str] = (METRICS,)) -> tuple[list[Path], list[Note]]:
    """Return the logs in `paths`, each a log or a folder with runs below it, and a note for one without.

    files_of_run: any of these names makes a directory a run's.
    """
    logs, notes = [], []
    for path in paths:
        before, seen = len(logs), set[str]()
        logs += [path] * path.is_file()
        for folder, below, files in os.walk(path, followlinks=True):
            if (real := os.path.realpath(folder)) in seen:  # a link in a circle
                below.clear()
                continue
            seen.add(real)
            if not {*files_of_run}.isdisjoint(files):
                logs.append(Path(folder, METRICS))
                below.clear()  # do not search inside a run's directory
            below.sort()
        if len(logs) == before:
            why = f"no {METRICS} there" if path.exists() else "no such file"
            notes.append(Note(f"{path}: {why}; left out", left_out=True))
    return logs, notes


def load_run(path: Path, keep: Filter = lambda name: True) -> RunLog:
    """Read a run from its log and the files beside it.

    Raises:
        ResultsError: one of them cannot be read.
    """
    metrics, notes = read_metrics(path, keep)
    directory = path.parent
    config, environment, fingerprint = (
        read_mapping(file) if (file := directory / name).exists() else {} for name in (CONFIG, ENVIRONMENT, FINGERPRINT)
    )
    contents = {key: value for key, value in {**fingerprint, **environment}.items() if is_hash(value)}
    if not config:
        notes.append(Note("no config.yaml beside it: the method is read from the name, the planned steps are unknown"))
    of_directory = os.fsencode(directory.resolve().name).decode(errors="backslashreplace")  # pandas takes UTF-8 alone
    name = setting(config, "run_name") or of_directory
    if (history := directory / HISTORY).exists():  # changed settings of a resume (rpg.resume_changed)
        for step, changed in read_lines(history, changes)[0]:
            notes += [Note(f"after step {step}: {key} {before!r} -> {after!r}") for key, before, after in changed]
    for metric in metrics:
        if steps := list(metrics.index[np.isinf(metrics[metric])]):
            more = f" and {len(steps) - 1} more" if len(steps) > 1 else ""
            notes.append(Note(f"{metric} is not finite at step {steps[0]}{more}; left out", left_out=True))
    failed, failures = read_failures(directory / LEFT_OUT)
    run = RunLog(str(name), path, directory, metrics, config, environment, (*notes, *failures), failed, contents)
    accurate = set(run.validations("acc").values())
    for metric, source in run.validations("reward").items():
        if source not in accurate:
            why = "the reward function returned no acc, so verl logged the score"
            run.notes += (Note(f"no accuracy of {source}: {why} ({metric}); left out", left_out=True),)
    for file, key, value, kind in (
        (CONFIG, KEYS["steps"], run.planned_steps, int | float),
        (ENVIRONMENT, "method", environment.get("method"), str),
    ):
        if value is not None and not isinstance(value, kind):
            raise ResultsError(f"{directory / file}: {key}={value!r:.60} cannot be used; restore or remove the file")
    run.accuracies()  # reject it here, so that other runs can still be shown
    return run


def changes(start: Any) -> tuple[int, list[tuple[str, Any, Any]]]:
    """Return of a start in HISTORY the step after which it began, and key, value before and after of each change."""
    return start["after_step"], [(key, before, after) for key, (before, after) in start["changed"].items()]


def read_failures(path: Path) -> tuple[int, tuple[Note, ...]]:
    """Return the number of responses in LEFT_OUT, and a note that says why the last one failed."""
    if not path.exists():
        return 0, ()
    lines, notes = read_lines(path, lambda line: str(line["why"]), whole=False)
    for why in lines[-1:]:
        text = f"failed rewards: {len(lines)}; accuracies count these responses as wrong, the training reward does not"
        notes = (*notes, Note(f"{text}; {why:.100} ({path.name})"))
    return len(lines), notes


def read_mapping(path: Path) -> dict[str, Any]:
    """Read a YAML or JSON file with a mapping. Raises ResultsError for other content."""
    try:
        content = yaml.load(path.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # ValueError: a date or number of YAML's that is none
        reason = " ".join(str(error).split()).replace('in "<byte string>",', "at")
        raise ResultsError(f"{path}: cannot be read: {reason}; restore or remove it") from error
    if not isinstance(content, dict):
        raise ResultsError(f"{path}: holds no settings; restore or remove it")
    return content
