"""The runs behind a table of the paper: what each is to be, and how far it is, by its directory alone."""

import copy
import hashlib
import json
import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pandas as pd

from rpg.checks import fingerprint, preflight
from rpg.checks.finding import Refused, shown
from rpg.checks.finding import Run as Configuration
from rpg.files.integrity import steps, verify
from rpg.launching import scripts
from rpg.launching.compose import of_script
from rpg.launching.overrides import key_of, override
from rpg.results.config import ResultsError, put, read_mapping, setting
from rpg.results.eval_command import eval_command
from rpg.results.log import read_metrics
from rpg.results.rows import Profile, Row, validation_files
from rpg.results.runs import CONFIG, METRICS, is_accuracy

# What differs from seed to seed: the order of the problems, vLLM's sampling, the mini-batches where they are shuffled.
SEEDS = ("data.seed", "actor_rollout_ref.rollout.seed", "actor_rollout_ref.actor.data_loader_seed")
NAME, DIRECTORY, STEPS = "trainer.experiment_name", "trainer.default_local_dir", "trainer.total_training_steps"
SAMPLING, FILES, MOST_ROWS = "actor_rollout_ref.rollout.val_kwargs", "data.val_files", "data.val_max_samples"
ANSWERS, VALIDATE_FIRST, ONLY_VALIDATE = f"{SAMPLING}.n", "trainer.val_before_train", "trainer.val_only"
STEP_TIME, VALIDATION_TIME = "timing_s/step", "timing_s/testing"
# Settings that the command sets itself, and by what: an override of one is refused.
SET_BY = {
    **dict.fromkeys(SEEDS, "--seeds"), NAME: "the script and --seeds", DIRECTORY: "--out", STEPS: "--steps",
    "trainer.total_epochs": "--steps", ONLY_VALIDATE: "the command, which trains and then validates,",
    "trainer.resume_mode": "the directory, from which runs resume",
    "trainer.resume_from_path": "the directory, from which runs resume",
}  # fmt: skip


@dataclass(frozen=True)
class PlannedRun:
    """One run of a reproduction.

    Attributes:
        name: the script's, and the seed. directory: where it runs.
        config: resolved. overrides: what the script is given beside name and directory.
    """

    row: Row
    script: Path
    name: str
    directory: Path
    config: dict[str, Any]
    overrides: tuple[str, ...]

    @property
    def steps(self) -> int:
        """Training steps that it is to reach."""
        return setting(self.config, STEPS)

    @property
    def checkpoint(self) -> Path:
        """Where its last checkpoint is, or will be."""
        return self.directory / f"global_step_{self.steps}"

    def state(self) -> "State":
        """How far it is. Raises ResultsError where its log cannot be read."""
        return State(self, read_log(self.directory))

    def command(self) -> list[str]:
        """The launch script, as it would be called by hand.

        A run that was ended between its last checkpoint and the record of its last step has no step left to make:
        verl then validates before training, and that is the record. Raises ResultsError as `state` does.
        """
        after = self.state().resumes_after
        last = [f"{VALIDATE_FIRST}=true"] if after is not None and after >= self.steps else []
        return ["bash", str(self.script), override(DIRECTORY, self.directory), *self.overrides, *last]


def read_log(directory: Path) -> pd.DataFrame:
    """Accuracies and times in the log of a run directory; empty where there is none yet. Raises ResultsError."""
    file = directory / METRICS
    wanted = {STEP_TIME, VALIDATION_TIME}
    return read_metrics(file, [], lambda n: n in wanted or is_accuracy(n)) if file.is_file() else pd.DataFrame()


@dataclass(frozen=True)
class State:
    """How far a run is: by its log, and by its checkpoints, whose sizes are compared with their manifests."""

    run: PlannedRun
    log: pd.DataFrame

    @property
    def step(self) -> int:
        """The last step in the log; 0 where there is none."""
        return int(self.log.index[-1]) if len(self.log.index) else 0

    @cached_property
    def resumes_after(self) -> int | None:
        """The newest step with a complete checkpoint; None where there is none."""
        saved = steps(self.run.directory)
        return next((step for step, path in saved if verify(path, contents=False).complete), None)

    @property
    def left(self) -> int:
        """The steps to be made; those since the checkpoint that it resumes from are made again."""
        return 0 if self.finished else max(self.run.steps - (self.resumes_after or 0), 0)

    @property
    def finished(self) -> bool:
        """Whether the last step is in the log, and its checkpoint complete."""
        return self.step >= self.run.steps and self.resumes_after is not None and self.resumes_after >= self.run.steps

    @property
    def text(self) -> str:
        """The state in a few words."""
        if self.finished:
            return "done"
        if not len(self.log.index) and self.resumes_after is None:
            return "to do"
        again = "from its beginning" if self.resumes_after is None else f"after {self.resumes_after}"
        return f"at step {self.step}, goes on {again}"

    @property
    def seconds(self) -> float | None:
        """Seconds of a step, validations by their share; None before the first one."""
        if STEP_TIME not in self.log:
            return None
        took = self.log[STEP_TIME].dropna().tolist()
        validations = sum(self.log[VALIDATION_TIME].dropna()) if VALIDATION_TIME in self.log else 0.0
        return statistics.median(took) + validations / len(took)


def plan_runs(
    rows: Sequence[Row], profile: Profile, seeds: Sequence[int], total: int | None, out: Path, more: Sequence[str]
) -> tuple[list[PlannedRun], dict[str, str]]:
    """The runs of these rows, all rows of a seed before the next seed; and of rows whose script refuses, why.

    Args:
        total: training steps; None for the scripts' own. more: overrides for every script.

    Raises:
        ResultsError: an override of what the command itself sets; settings under which no run would ever be done.
        BadSetting: a path that no configuration can hold.
    """
    for text in more:
        if key_of(text) in SET_BY:
            raise ResultsError(f"{text}: {SET_BY[key_of(text)]} says that here; leave the override out")
    common = [] if total is None else [f"{STEPS}={total}"]
    if files := validation_files(rows[0].table, profile):
        common.append(override(FILES, files))
    common += more

    def configured(row: Row) -> dict[str, Any] | str:
        try:
            return of_script(scripts.find(row.script(profile)), common).copy()
        except ValueError as error:
            return one_line(error)

    configs = {row: configured(row) for row in rows}
    refused = {row.method: config for row, config in configs.items() if isinstance(config, str)}
    planned: list[PlannedRun] = []
    for seed in seeds:
        for row, resolved in configs.items():
            if isinstance(resolved, str):
                continue
            name = f"{row.name(profile)}-seed{seed}"
            config, directory = copy.deepcopy(resolved), out / "runs" / name
            for key, value in {**dict.fromkeys(SEEDS, seed), NAME: name, DIRECTORY: str(directory)}.items():
                put(config, key, value)
            own = [override(NAME, name), *(f"{key}={seed}" for key in SEEDS)]
            planned.append(PlannedRun(row, row.script(profile), name, directory, config, (*common, *own)))
            for key in (STEPS, "trainer.save_freq"):
                value = setting(config, key)
                if not isinstance(value, int) or value <= 0:
                    raise ResultsError(
                        f"{key}={shown(value)}: a run is done at its last step, with a checkpoint of it; "
                        "give a whole number above 0"
                    )
    return planned, refused


def refuse_others(planned: Sequence[PlannedRun]) -> None:
    """Raise ResultsError where a run's directory holds another training, or one that has gone further than asked."""
    for run in planned:
        if wrong := [f"{key} there {there!r:.60}, here {here!r:.60}" for key, there, here in differences(run)]:
            remedy = "give the overrides it had, or another --out"
            raise ResultsError(f"{run.directory} holds another training: {'; '.join(wrong)}; {remedy}")
        state = run.state()
        if state.step > run.steps:
            remedy = f"give --steps {state.step}, or another --out"
            raise ResultsError(f"{run.directory} is at step {state.step}, beyond the {run.steps} asked for; {remedy}")
        there, here = validation(own_config(run))[FILES], validation(run.config)[FILES]
        if len(state.log.index) and not state.finished and there != here:
            remedy = "end it with the command that began it, or give another --out"
            raise ResultsError(f"{run.directory} is begun, and validates on {there}, not on {here}; {remedy}")


def differences(run: PlannedRun) -> list[tuple[str, Any, Any]]:
    """(key, there, here) of the settings that define a training, and of the contents of its files where they are here.

    Raises ResultsError where the run's fingerprint cannot be read.
    """
    try:
        found = fingerprint.compare(run.directory, Configuration(run.config))
    except Refused as refused:
        raise ResultsError(one_line(refused)) from refused
    return [(key, there, here) for key, (there, here) in found.items() if here or not key.endswith(")")]


def own_config(run: PlannedRun) -> dict[str, Any]:
    """The configuration that a run was last started with; the planned one before its first start."""
    file = run.directory / CONFIG
    return read_mapping(file) if file.is_file() else run.config


def cluster() -> bool:
    """Whether the runs become jobs of a cluster."""
    return bool(os.environ.get("RAY_ADDRESS"))


def refusal(run: PlannedRun, elsewhere: bool) -> str | None:
    """What the run's own pre-flight would refuse, its checkpoints left out; None where that is nothing.

    elsewhere: only the settings are looked at, not files and machine.
    """
    config = copy.deepcopy(run.config)
    put(config, "trainer.resume_mode", "disable")  # else all bytes of its checkpoints would be read
    try:
        preflight.refuse(Configuration(config), ["cheap"], ["settings"] if elsewhere else preflight.SUBJECTS)
    except Refused as refused:
        return one_line(refused)
    return None


def one_line(error: Exception) -> str:
    """What an error says, its lines one after another."""
    return "; ".join(line.strip() for line in str(error).splitlines() if line.strip())


@dataclass(frozen=True)
class Evaluation:
    """The validation of a run's last checkpoint with so many answers to each row of its files.

    directory: the run's own, where its last validation is what is asked for; else one of its own.
    """

    run: PlannedRun
    answers: int
    directory: Path

    @property
    def separate(self) -> bool:
        """Whether it is a run of its own, beside the training."""
        return self.directory != self.run.directory

    def command(self) -> list[str]:
        """As `rpg eval` starts it, another time where one was not ended. Raises ResultsError without a checkpoint."""
        run, set_by_eval = self.run, (ONLY_VALIDATE, VALIDATE_FIRST, ANSWERS)
        overrides = [text for text in run.overrides if key_of(text) not in set_by_eval]
        return eval_command(run.script, run.checkpoint, None, self.answers, self.directory, overrides)

    def done(self) -> bool:
        """Whether its accuracies are in the log. Raises ResultsError where the log cannot be read."""
        log = read_log(self.directory)
        return self.run.steps in log.index and any(map(is_accuracy, log.loc[self.run.steps].dropna().index))


def evaluation(run: PlannedRun, answers: int | None, out: Path) -> Evaluation:
    """How the last checkpoint of a run is evaluated: by the run's own last validation where that is what is asked for.

    answers: to each row of the files; None for as many as the run's validations have. A separate evaluation has a
    directory for each validation that can be asked for.
    """
    wanted = validation(run.config)
    wanted[ANSWERS] = answers or wanted[ANSWERS]
    own = Evaluation(run, wanted[ANSWERS], run.directory)
    validates_at_end = not run.state().finished and setting(run.config, "trainer.test_freq") > 0
    if (validates_at_end or own.done()) and validation(own_config(run)) == wanted:
        return own
    which = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:8]
    name = f"{run.name}-step{run.steps}-n{wanted[ANSWERS]}-{which}"
    return Evaluation(run, wanted[ANSWERS], out / "evaluations" / name)


def validation(config: dict[str, Any]) -> dict[str, Any]:
    """The settings that a validation's numbers depend on, beside the checkpoint, by dotted key."""
    files = setting(config, FILES) or []
    sampling = {f"{SAMPLING}.{key}": value for key, value in sorted((setting(config, SAMPLING) or {}).items())}
    return {**sampling, FILES: [files] if isinstance(files, str) else files, MOST_ROWS: setting(config, MOST_ROWS)}
