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

from rpg.checks import fingerprint, preflight
from rpg.checks.finding import Refused, shown
from rpg.checks.finding import Run as Asked
from rpg.files.judge import steps, verify
from rpg.launching import scripts
from rpg.launching.compose import of_script
from rpg.launching.overrides import key_of, override
from rpg.results.config import put, setting
from rpg.results.eval_command import eval_command
from rpg.results.records import Record, ResultsError, brief, read_jsonl, read_mapping
from rpg.results.rows import Profile, Row, validation_files
from rpg.results.runs import ACCURACY, CONFIG, METRICS

# What differs from seed to seed: the order of the problems, vLLM's sampling, the mini-batches where they are shuffled.
SEEDS = ("data.seed", "actor_rollout_ref.rollout.seed", "actor_rollout_ref.actor.data_loader_seed")
NAME, DIRECTORY, STEPS = "trainer.experiment_name", "trainer.default_local_dir", "trainer.total_training_steps"
SAMPLING, FILES = "actor_rollout_ref.rollout.val_kwargs", "data.val_files"
MOST = "data.val_max_samples"
ANSWERS, FIRST = f"{SAMPLING}.n", "trainer.val_before_train"
BY_EVALUATION = ("trainer.val_only", FIRST, ANSWERS)  # which an override is not to undo
OURS = {**dict.fromkeys(SEEDS, "--seeds"), NAME: "the script and --seeds", DIRECTORY: "--out", STEPS: "--steps",
        "trainer.total_epochs": "--steps", "trainer.val_only": "the command, which trains and then validates,",
        "trainer.resume_mode": "the directory, which is gone on from",
        "trainer.resume_from_path": "the directory, which is gone on from"}  # fmt: skip


@dataclass(frozen=True)
class Planned:
    """One run of a reproduction.

    Attributes:
        name: the script's, and the seed. directory: where it runs.
        config: resolved. overrides: what the script is given beside name and directory.
    """

    row: Row
    script: Path
    seed: int
    name: str
    directory: Path
    config: dict[str, Any]
    overrides: tuple[str, ...]

    @property
    def steps(self) -> int:
        """Training steps that it is to reach."""
        return setting(self.config, STEPS)

    def command(self) -> list[str]:
        """The launch script, as it would be called by hand.

        A run that was ended between its last checkpoint and the record of its last step has no step left to make:
        verl then validates before training, and that is the record. Raises ResultsError as `state` does.
        """
        after = self.state().resumes_after
        last = [f"{FIRST}=true"] if after is not None and after >= self.steps else []
        return ["bash", str(self.script), override(DIRECTORY, self.directory), *self.overrides, *last]

    @property
    def checkpoint(self) -> Path:
        """Where its last checkpoint is, or will be."""
        return self.directory / f"global_step_{self.steps}"

    def state(self) -> "State":
        """How far it is. Raises ResultsError where its log cannot be read."""
        return State(self, records(self.directory))


def records(directory: Path) -> list[Record]:
    """The log of a run directory; [] where there is none yet. Raises ResultsError for one that cannot be read."""
    file = directory / METRICS
    return list(read_jsonl(file, [])) if file.is_file() else []


@dataclass(frozen=True)
class State:
    """How far a run is: by its log, and by its checkpoints, whose sizes are compared with their manifests."""

    run: Planned
    log: list[Record]

    @property
    def step(self) -> int:
        """The last step in the log; 0 where there is none."""
        return max((step for step, _ in self.log), default=0)

    @cached_property
    def resumes_after(self) -> int | None:
        """The newest step with a complete checkpoint; None where there is none."""
        saved = steps(self.run.directory)
        return next((step for step, path in saved if verify(path, contents=False).complete), None)

    @property
    def left(self) -> int:
        """The steps that are to be made: those since the checkpoint that it goes on from are made again."""
        return 0 if self.finished else max(self.run.steps - (self.resumes_after or 0), 0)

    @property
    def finished(self) -> bool:
        """Whether the last step is in the log, and its checkpoint complete."""
        return self.step >= self.run.steps and self.resumes_after is not None and self.resumes_after >= self.run.steps

    @property
    def words(self) -> str:
        """The state in a few words."""
        if self.finished:
            return "done"
        if not self.log and self.resumes_after is None:
            return "to do"
        again = "from its beginning" if self.resumes_after is None else f"after {self.resumes_after}"
        return f"at step {self.step}, goes on {again}"

    @property
    def seconds(self) -> float | None:
        """Seconds of a step, validations by their share; None before the first one."""
        took = [data["timing_s/step"] for _, data in self.log if "timing_s/step" in data]
        tests = sum(data.get("timing_s/testing", 0.0) for _, data in self.log)
        return statistics.median(took) + tests / len(took) if took else None


def plan_runs(
    rows: Sequence[Row], profile: Profile, seeds: Sequence[int], total: int | None, out: Path, more: Sequence[str]
) -> tuple[list[Planned], dict[str, str]]:
    """The runs of these rows, all rows of a seed before the next seed; and of rows whose script refuses, why.

    Args:
        total: training steps; None for the scripts' own. more: overrides for every script.

    Raises:
        ResultsError: an override of what the command itself sets; a number of steps, or checkpoints, that cannot be.
        BadSetting: a path that no configuration can hold.
    """
    for text in more:
        if key_of(text) in OURS:
            raise ResultsError(f"{text}: {OURS[key_of(text)]} says that here; leave the override out")
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
    planned: list[Planned] = []
    for seed in seeds:
        for row, found in configs.items():
            if isinstance(found, str):
                continue
            name = f"{row.name(profile)}-seed{seed}"
            config, directory = copy.deepcopy(found), out / "runs" / name
            for key, value in {**dict.fromkeys(SEEDS, seed), NAME: name, DIRECTORY: str(directory)}.items():
                put(config, key, value)
            own = [override(NAME, name), *(f"{key}={seed}" for key in SEEDS)]
            planned.append(Planned(row, row.script(profile), seed, name, directory, config, (*common, *own)))
            _refuse_endless(config)
    return planned, refused


def _refuse_endless(config: dict[str, Any]) -> None:
    """Raise ResultsError where nobody could tell that a run has come to its end."""
    if not isinstance(setting(config, STEPS), int):
        raise ResultsError(f"{STEPS}={shown(setting(config, STEPS))}: without a last step no run is done; give --steps")
    save_freq = setting(config, "trainer.save_freq")
    if not isinstance(save_freq, int) or save_freq <= 0:
        raise ResultsError(
            f"trainer.save_freq={shown(save_freq)} is no whole number above 0: without checkpoints no run is done; "
            "leave it out"
        )


def refuse_others(planned: Sequence[Planned]) -> None:
    """Raise ResultsError where a run's directory holds another training, or one that has gone further than asked."""
    for run in planned:
        wrong = [f"{key} there {brief(there)}, here {brief(here)}" for key, there, here in differences(run)]
        if wrong:
            remedy = "give the overrides it had, or another --out"
            raise ResultsError(f"{run.directory} holds another training: {'; '.join(wrong)}; {remedy}")
        state, own = run.state(), run.directory / CONFIG
        if (step := state.step) > run.steps:
            remedy = f"give --steps {step}, or another --out"
            raise ResultsError(f"{run.directory} is at step {step}, beyond the {run.steps} asked for; {remedy}")
        if state.log and not state.finished and own.is_file():
            there, here = validation(read_mapping(own))[FILES], validation(run.config)[FILES]
            if there != here:
                remedy = "end it with the command that began it, or give another --out"
                raise ResultsError(f"{run.directory} is begun, and validates on {there}, not on {here}; {remedy}")


def differences(run: Planned) -> list[tuple[str, Any, Any]]:
    """(key, there, here) of the settings that define a training, and of the contents of its files where they are here.

    Raises ResultsError where the run's fingerprint cannot be read.
    """
    try:
        found = fingerprint.compare(run.directory, Asked(run.config))
    except Refused as refused:
        raise ResultsError(one_line(refused)) from refused
    return [(key, there, here) for key, (there, here) in found.items() if here or not key.endswith(")")]


def cluster() -> bool:
    """Whether the runs become jobs of a cluster."""
    return bool(os.environ.get("RAY_ADDRESS"))


def refusal(run: Planned, elsewhere: bool) -> str | None:
    """What the run's own pre-flight would refuse, its checkpoints left out; None where that is nothing.

    elsewhere: files and machine are not looked at, only the settings.
    """
    config = copy.deepcopy(run.config)
    put(config, "trainer.resume_mode", "disable")  # else all bytes of its checkpoints would be read
    try:
        preflight.refuse(Asked(config), ["cheap"], ["settings"] if elsewhere else preflight.SUBJECTS)
    except Refused as refused:
        return one_line(refused)
    return None


def one_line(error: Exception) -> str:
    """What an error says, its lines one after another."""
    return "; ".join(line.strip() for line in str(error).splitlines() if line.strip())


@dataclass(frozen=True)
class Evaluation:
    """The validation of a run's last checkpoint with so many answers to each row: the run's own, or one alone."""

    run: Planned
    answers: int
    directory: Path

    @property
    def alone(self) -> bool:
        """Whether it is to be, or was, started apart from the run."""
        return self.directory != self.run.directory

    def command(self) -> list[str]:
        """As `rpg eval` starts it, another time where one was not ended. Raises ResultsError without a checkpoint."""
        run = self.run
        overrides = [text for text in run.overrides if key_of(text) not in BY_EVALUATION]
        return eval_command(run.script, run.checkpoint, None, self.answers, self.directory, overrides)

    def done(self) -> bool:
        """Whether it is there. Raises ResultsError where its log cannot be read."""
        return _validated(self.directory, self.run.steps)


def evaluation(run: Planned, answers: int | None, out: Path) -> Evaluation:
    """How the last checkpoint of a run is evaluated: by the run's own last validation where that is what is asked.

    answers: to each row of the files; None for as many as the run's validations have. An evaluation alone has a
    directory of its own for each validation that can be asked for.
    """
    wanted = validation(run.config)
    wanted[ANSWERS] = answers or wanted[ANSWERS]
    own = run.directory / CONFIG
    known = read_mapping(own) if own.is_file() else run.config
    state = run.state()
    validates = not state.finished and setting(run.config, "trainer.test_freq") > 0  # its last step whatever it is
    validates = validates or _validated(run.directory, run.steps)
    if validates and validation(known) == wanted:
        return Evaluation(run, wanted[ANSWERS], run.directory)
    which = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:8]
    name = f"{run.name}-step{run.steps}-n{wanted[ANSWERS]}-{which}"
    return Evaluation(run, wanted[ANSWERS], out / "evaluations" / name)


def validation(config: dict[str, Any]) -> dict[str, Any]:
    """What a validation is of: the settings that its numbers depend on, beside the checkpoint, by dotted key."""
    files = setting(config, FILES) or []
    sampling = {f"{SAMPLING}.{key}": value for key, value in sorted((setting(config, SAMPLING) or {}).items())}
    return {**sampling, FILES: [files] if isinstance(files, str) else files, MOST: setting(config, MOST)}


def _validated(directory: Path, step: int) -> bool:
    return any(at == step and any(map(ACCURACY.fullmatch, data)) for at, data in records(directory))
