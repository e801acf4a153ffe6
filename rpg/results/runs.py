"""A run's directory as one frame: metrics.jsonl (verl's file logger) with config.yaml and environment.json."""

import json
import os
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

import numpy as np
import pandas as pd

from rpg.config.record import CONTENTS, recorded
from rpg.config.verl_keys import FUNCTION, JUDGE, RESUMABLE, REWARD_FILE, VALIDATION
from rpg.diagnostics import UserError, fitted, printable
from rpg.dotted import below, leaves, value_at
from rpg.files import manifest
from rpg.files.atomic import ENVIRONMENT, LEFT_OUT, METRICS, SAMPLES
from rpg.files.integrity import STEP, newest_complete
from rpg.logged import ALL_GROUPS, BATCH, LEFT_OUT_OF_VALIDATION, VALIDATED
from rpg.registry.datasets import benchmark_of
from rpg.registry.methods import label_of
from rpg.rewards import JUDGES, OURS
from rpg.rewards.user_reward import ADAPTER

CHECKPOINTS = Path("checkpoints")  # where launch scripts put their runs
# of what a resume may change, what tells experiments apart all the same: the length, how and when they are validated
DISTINGUISHING = (*VALIDATION, "trainer.test_freq", "trainer.total_training_steps", "trainer.total_epochs")
# what numbers are measured by: they compare only between runs in which these are equal
MEASURED_BY = {"accuracies": ("judge", *VALIDATION), "training rewards": ("judge", "reward", "data.train_files")}
SHA256 = re.compile(r"^([0-9a-f]{8})[0-9a-f]{56}$")
TOLERANCE = 1e-4  # rounding difference between a logged accuracy and the mean of its samples


@dataclass
class Run:
    """A run's directory.

    Attributes:
        frame: step x metric, a pandas frame; NaN where a metric was not logged or not finite.
        config: the resolved configuration, or {}. environment: environment.json, or {}.
        notes: what a reader of its numbers must know.
    """

    directory: Path
    frame: Any
    config: dict[str, Any]
    environment: dict[str, Any]
    notes: list[str]

    @property
    def name(self) -> str:
        """Its directory, as given to a command."""
        return printable(str(self.directory))

    @property
    def method(self) -> str:
        """The paper's name of the method; "" if it is unknown, such as a user's loss."""
        method, divergence = (value_at(self.config, f"rpg.{name}", "") for name in ("method", "divergence"))
        return label_of(method, divergence) or ""

    @property
    def judge(self) -> str:
        """What scored its answers: a judge (docs/judges.md), or the file of another reward function."""
        if not self.config:
            return "not recorded"
        path = value_at(self.config, REWARD_FILE) or value_at(self.config, f"{FUNCTION}.path", OURS)
        if path == OURS:
            return value_at(self.config, JUDGE) or JUDGES[0]
        return PurePath(path).name if path else "verl's own"

    @property
    def seed(self) -> str:
        """The seeds in its configuration; runs with equal seeds are paired."""
        return str([(key, value) for key, value in leaves(self.config) if key.endswith("seed") and value is not None])

    @cached_property
    def settings(self) -> dict[str, str]:
        """What tells experiments apart: dotted key -> value, without seeds, with `judge` and `checkpoint`.

        Files are compared by content, as the same path may hold another file; a model also by its path.
        """
        kept = {
            key: repr(value)
            for key, value in leaves(self.config)
            if not key.endswith("seed") and key != JUDGE and value not in (None, {}, OURS, ADAPTER)
            and (not below(key, RESUMABLE) or below(key, DISTINGUISHING))
        }  # fmt: skip
        for key, files in self.environment.get(CONTENTS, {}).items():
            if isinstance(files, dict):  # a model's parts
                files = [*filter(None, (value_at(self.config, key), *files.values()))]
            if files:
                kept[key] = ", ".join(SHA256.sub(r"\1", name) for name in files)
        folder, origin = (value_at(self.config, f"trainer.{key}") for key in ("default_local_dir", "resume_from_path"))
        if value_at(self.config, "trainer.val_only"):  # of seeds, each of its own run
            kept["checkpoint"] = PurePath(origin or "untrained").name
        elif origin and str(PurePath(origin).parent) != folder:
            kept["checkpoint"] = origin
        return kept | {"judge": self.judge}

    @property
    def step(self) -> int:
        """The last logged step, 0 without one."""
        return max(self.frame.index, default=0)

    @property
    def planned_steps(self) -> int | None:
        """trainer.total_training_steps; None without a configuration, or of an evaluation."""
        validates = value_at(self.config, "trainer.val_only")
        return None if validates else value_at(self.config, "trainer.total_training_steps")

    @property
    def steps_left(self) -> int:
        """Planned steps that are not logged; 0 if their number is unknown."""
        return max(0, (self.planned_steps or 0) - self.step)

    def series(self, metric: str) -> pd.Series:
        """Return the values of a metric by step; may be empty."""
        return self.frame.get(metric, pd.Series(dtype=float)).dropna().rename(None)

    @property
    def training_reward(self) -> pd.Series:
        """The mean reward of training responses by step, of all groups where the filter logs it; may be empty."""
        return self.series(ALL_GROUPS).combine_first(self.series(BATCH))

    def validations(self, variable: str = "acc") -> dict[str, str]:
        """Return the data_source of each metric val-core/<data_source>/<variable>/mean@k; a resume may change k.

        variable: "acc", or "reward", which verl logs so only where a set has no accuracy.
        """
        matches = [match for name in self.frame if (match := VALIDATED.fullmatch(str(name)))]
        return {match[0]: match["data_source"] for match in matches if match["variable"] == variable}

    @cached_property
    def accuracies(self) -> Any:
        """Step x benchmark: Mean@k. The mean@1 of a file with each problem k times is Mean@k, too.

        Of two k at one step, as where a resume changed k and validated the step again, the later logged one counts.

        Raises UserError: one benchmark under two data_source spellings at the same step.
        """
        sources = self.validations()
        by_source = self.frame[[*sources]].rename(columns=sources).T.groupby(level=0, sort=False).last()
        by_benchmark = by_source.groupby(benchmark_of, sort=False)
        if (by_benchmark.count() > 1).any(axis=None):
            raise UserError(f"{self.directory}: {', '.join(by_source.index)}: evaluate one file of each benchmark")
        return by_benchmark.first().T.dropna(how="all").dropna(axis=1, how="all")

    def samples(self, step: int, benchmark: str | None = None) -> Any:
        """Return the answers of the validation at `step`, one a row, with benchmark, problem and acc; may be empty.

        benchmark: the only one. As in verl's accuracy, answers without acc are wrong, and responses that the validation
        left out are there as wrong. Samples whose mean accuracy is not the logged one even so belong to another run, or
        are not all there: they are left out with a note.
        """
        file, logged = self.directory / SAMPLES / f"{step}.jsonl", self.accuracies.loc[step].dropna()
        samples: Any = pd.DataFrame(read_lines(file) if file.is_file() else [])
        if samples.empty:
            return pd.DataFrame(columns=["input", "output", "gts", "acc", "benchmark", "problem"])
        if "data_source" not in samples:  # of plain verl
            samples["data_source"] = next(iter(self.validations().values()))
        samples["benchmark"] = samples["data_source"].map(benchmark_of)
        saved = samples["acc"].astype(float)
        samples["acc"] = saved.fillna(0)
        used, left_out = [samples[:0]], int(self.series(LEFT_OUT_OF_VALIDATION).get(step) or 0)
        for name, answers in samples.groupby("benchmark"):
            accuracy, means = logged.get(name, np.nan), answers["acc"].sum() / (len(answers) + np.arange(left_out + 1))
            if not abs(means - accuracy).min() <= TOLERANCE:
                self.notes.append(f"the answers to {name} in {file} are not used: their accuracy is {means[0]:.4f}, "
                                  f"the log has {accuracy:.4f}")  # fmt: skip
                continue
            used.append(with_wrong(answers, int(abs(means - accuracy).argmin())))
            if lacking := saved[answers.index].isna().sum():
                self.notes.append(f"{lacking} answers to {name} in {file} have no acc and count as wrong")
        samples = pd.concat(used, ignore_index=True)
        samples["problem"] = samples["input"] + samples["gts"].map(json.dumps)
        return samples if benchmark is None else samples[samples["benchmark"] == benchmark]


def with_wrong(samples: Any, number: int) -> Any:
    """Return samples and `number` wrong answers: first to problems with fewer answers than others, then to unknown."""
    sizes = samples["input"].value_counts(sort=False)
    known = sizes.index.repeat(sizes.max() - sizes)[:number]
    problems = [*known, *(f"left out {place // sizes.max()}" for place in range(number - len(known)))]
    like = [*known, *[sizes.index[0]] * (number - len(known))]
    rows = samples.drop_duplicates("input").set_index("input").loc[like]
    return pd.concat([samples, rows.assign(input=problems, output="", acc=0.0)])


def load(directory: Path) -> Run:
    """Read a run. Of two records of a step, as after a resume, the later one counts.

    Raises UserError: a file cannot be read.
    """
    config, environment = recorded(directory)
    log, notes = directory / METRICS, list[str]()
    records = read_lines(log, {"step": int, "data": dict}) if log.is_file() else []
    steps = pd.Index([record["step"] for record in records], name="step")
    logged: Any = pd.DataFrame([record["data"] for record in records], index=steps).select_dtypes("number")
    last = logged.replace([np.inf, -np.inf], np.nan).groupby(level="step").last()
    if not config:
        notes.append("no config.yaml: its method, settings and planned steps are unknown")
    for start in environment.get("starts", []):  # changed settings of a resume (rpg.resume_changed)
        notes += [f"after step {start['after_step']}: {key} {old!r} -> {new!r}"
                  for key, (old, new) in start["changed"].items()]  # fmt: skip
    if failed := read_lines(file) if (file := directory / LEFT_OUT).exists() else []:
        notes.append(f"{len(failed)} responses have no reward: accuracies count them as wrong, the training reward "
                     f"does not; {failed[-1]['why']:.100} ({LEFT_OUT})")  # fmt: skip
    run = Run(directory, last, config, environment, notes)
    if config and not run.planned_steps and not value_at(config, "trainer.val_only"):
        notes.append(f"at step {run.step}, planned steps unknown (trainer.total_epochs)")
    if unscored := [*run.validations("reward").values()]:
        notes.append(f"{', '.join(unscored)}: validated without accuracy; a reward function returns acc beside score")
    if run.steps_left:
        notes.append(f"at step {run.step} of {run.planned_steps}, still running or stopped early")
        return run
    ends = run.accuracies.apply(pd.Series.last_valid_index)
    for step, benchmarks in ends[ends < run.step].groupby(ends).groups.items():
        notes.append(f"{', '.join(benchmarks)}: last validated at step {step}, the log ends at step {run.step}")
    return run


def read_lines(path: Path, types: Mapping[str, type] | None = None) -> list[Any]:
    """Return the values of JSON lines. An incomplete last line, as a killed run leaves it, is left out.

    Raises UserError: a line is not JSON, or no object with values of these types.
    """
    values = []
    for number, line in enumerate(path.read_bytes().split(b"\n")[:-1], start=1):  # U+2028 does not end a line
        try:
            values.append(value := json.loads(line))
            if types and not all(isinstance(value, dict) and isinstance(value.get(key), types[key]) for key in types):
                raise ValueError(f"not a JSON object with {' and '.join(types)}")
        except ValueError as error:
            raise UserError(f"{path}, line {number}: {error}; correct or remove the line") from error
    return values


def find(paths: Sequence[Path]) -> list[Path]:
    """Return the directories of runs in `paths` (each, or below it), by default in ./checkpoints.

    They have environment.json, which a start writes, or a log alone, as of plain verl.
    Raises UserError if there is none, or a path does not exist.
    """
    if missing := [str(path) for path in paths if not path.exists()]:
        raise UserError(f"{', '.join(missing)}: no such file or directory")
    found, visited = list[Path](), set[str]()
    for path in paths or [CHECKPOINTS]:
        for folder, inner, files in os.walk(path, followlinks=True):
            if (real := os.path.realpath(folder)) in visited:  # links that form loops would have no end
                inner.clear()
                continue
            visited.add(real)
            inner[:] = sorted(name for name in inner if not name.startswith("."))
            if ENVIRONMENT in files or METRICS in files:
                found.append(Path(folder))
    if not found:
        raise UserError(f"no run in {', '.join(map(str, paths)) or CHECKPOINTS}; give a run's directory")
    return found


def find_checkpoint(path: Path, *, contents: bool = True) -> Path:
    """Return a path that is a global_step_N, or the newest complete one of a run directory.

    Notes name skipped checkpoints with reasons. contents: whether to verify checksums.
    Raises UserError: no complete checkpoint.
    """
    if STEP.fullmatch(path.name):  # verl reads the step from the name
        if why := manifest.fault(path, contents=contents):
            raise UserError(f"{path}: {why}; use an earlier global_step_N")
        return path
    choice = newest_complete(path, contents=contents)
    show_notes(f"{skipped}: skipped: {why}" for skipped, why in choice.passed_over.items())
    if choice.newest is None:
        raise UserError(f"{path}: no complete checkpoint; give the directory of a run, or its global_step_N")
    return choice.newest


def load_runs(paths: Sequence[Path]) -> list[Run]:
    """Return the runs in these paths. Raises UserError: a run cannot be read."""
    return [load(directory) for directory in find(paths)]


def differing(runs: Sequence[Run], sections: Sequence[str] = ()) -> dict[str, list[str | None]]:
    """Return the settings in which runs differ: dotted key -> the value of each, None for a missing key.

    sections: of these keys and those below them. A run without config.yaml differs from others in its judge alone,
    which is not recorded.
    """
    found = {}
    for key in sorted({key for run in runs for key in run.settings if not sections or below(key, sections)}):
        if len({run.settings.get(key) for run in runs if run.config or key == "judge"}) > 1:
            found[key] = [run.settings.get(key) for run in runs]
    return found


def measured_apart(runs: Sequence[Run], numbers: str) -> list[str]:
    """Return a note if these numbers of runs (MEASURED_BY) do not compare."""
    keys = differing(runs, MEASURED_BY[numbers])
    return [f"the {numbers} do not compare: {', '.join(keys)} differ"] if keys else []


def made_apart(runs: Iterable[Run]) -> list[str]:
    """Return notes on the packages or devices in which runs differ."""
    return [f"the runs differ in {key} ({ENVIRONMENT})" for key in ("versions", "devices")
            if len({json.dumps(known) for run in runs if (known := run.environment.get(key))}) > 1]  # fmt: skip


def notes_of(runs: Iterable[Run]) -> list[str]:
    """Return the notes of runs with their names."""
    return [f"{run.name}: {note}" for run in runs for note in run.notes]


def show_notes(notes: Iterable[str]) -> None:
    """Print the notes of a command on stderr."""
    for note in dict.fromkeys(notes):
        print(*fitted([f"note: {printable(note)}"], 6, sys.stderr), sep="\n", file=sys.stderr)
