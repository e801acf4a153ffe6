"""The runs behind a table of the paper: what each is to be, and how far it is, by its directory alone."""

import copy
import hashlib
import json
import os
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from rpg.checks import fingerprint, preflight
from rpg.checks.finding import Refused, shown
from rpg.checks.finding import Run as Configuration
from rpg.files.integrity import steps, verify
from rpg.launching import scripts
from rpg.launching.compose import of_script
from rpg.launching.overrides import key_of, override
from rpg.methods.names import table_script
from rpg.methods.table import ROWS
from rpg.results.eval_command import eval_command
from rpg.results.runs import METRICS, is_accuracy, read_metrics
from rpg.results.settings import CONFIG, ResultsError, put, read_mapping, setting
from rpg.results.table import paper_table

Profile = Literal["gpu", "cpu"]
RECIPE = Path(__file__).resolve().parents[2] / "recipe" / "rpg"
DATA = RECIPE.parents[1] / "data"
# Benchmarks that the scripts do not validate on by themselves: the files of data/ that hold them.
BENCHMARK_FILES = {"Minerva-Math": "minerva-math.parquet", "OlympiadBench": "olympiadbench.parquet"}
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
class Row:
    """A row of a table: the paper's name of the method, and its script on GPUs and on the toy task, below recipe/rpg.

    printed: whether the paper's table has it.
    """

    table: int
    method: str
    gpu: str
    cpu: str
    printed: bool

    def script(self, profile: Profile) -> Path:
        """The launch script."""
        return RECIPE / (self.gpu if profile == "gpu" else self.cpu)

    def name(self, profile: Profile) -> str:
        """What the launch script calls its run."""
        return self.script(profile).stem.removeprefix("run_")


def rows_of(table: int) -> list[Row]:
    """The rows of a table in the paper's order, then those beside it.

    Raises:
        ResultsError: the paper has no such table of results.
    """
    printed = list(paper_table(table).rows)
    beside = [method.label for method in ROWS if method.beside]
    return [
        Row(table, label, table_script(label, table), table_script(label, table, "cpu"), label in printed)
        for label in [*printed, *beside]
    ]


def choose(rows: list[Row], methods: list[str]) -> list[Row]:
    """The rows that are asked for, in their own order: by method, whatever its case; `paper`, `all`.

    Raises:
        ResultsError: a method that is none of theirs.
    """
    asked = {method.lower() for method in methods}
    if unknown := asked - {row.method.lower() for row in rows} - {"paper", "all"}:
        known = ", ".join(row.method for row in rows)
        raise ResultsError(f"--methods {min(unknown)}: no row of table {rows[0].table}; there are {known}, paper, all")
    return [row for row in rows if "all" in asked or ("paper" in asked and row.printed) or row.method.lower() in asked]


@dataclass(frozen=True)
class State:
    """How far a run is, by its log and by its checkpoints, whose sizes are compared with their manifests.

    Attributes:
        steps: that it is to reach. step: the last one in the log, 0 where there is none.
        saved: the newest step with a complete checkpoint; None where there is none.
        seconds: of a step, validations by their share; None before the first one.
    """

    steps: int
    step: int
    saved: int | None
    seconds: float | None

    @property
    def finished(self) -> bool:
        """Whether the last step is in the log, and its checkpoint complete."""
        return self.step >= self.steps and (self.saved or 0) >= self.steps

    @property
    def left(self) -> int:
        """The steps to be made; those since the checkpoint that it resumes from are made again."""
        return 0 if self.finished else max(self.steps - (self.saved or 0), 0)

    @property
    def text(self) -> str:
        """The state in a few words."""
        if self.finished:
            return "done"
        if not self.step and self.saved is None:
            return "to do"
        again = "from its beginning" if self.saved is None else f"after {self.saved}"
        return f"at step {self.step}, goes on {again}"


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

    def state(self) -> State:
        """How far it is. Raises ResultsError where its log cannot be read."""
        log = read_log(self.directory)
        complete = (step for step, path in steps(self.directory) if verify(path, contents=False).complete)
        seconds = None
        if STEP_TIME in log:
            took = log[STEP_TIME].dropna()
            validations = sum(log[VALIDATION_TIME].dropna()) if VALIDATION_TIME in log else 0.0
            seconds = statistics.median(took) + validations / len(took)
        return State(self.steps, int(log.index[-1]) if len(log.index) else 0, next(complete, None), seconds)

    def command(self) -> list[str]:
        """The launch script, as it would be called by hand.

        A run that was ended between its last checkpoint and the record of its last step has no step left to make:
        verl then validates before training, and that is the record. Raises ResultsError as `state` does.
        """
        last = [f"{VALIDATE_FIRST}=true"] if (self.state().saved or 0) >= self.steps else []
        return ["bash", str(self.script), override(DIRECTORY, self.directory), *self.overrides, *last]


def read_log(directory: Path) -> pd.DataFrame:
    """Accuracies and times in the log of a run directory; empty where there is none yet. Raises ResultsError."""
    file = directory / METRICS
    wanted = {STEP_TIME, VALIDATION_TIME}
    return read_metrics(file, [], lambda n: n in wanted or is_accuracy(n)) if file.is_file() else pd.DataFrame()


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
    benchmarks = paper_table(rows[0].table).benchmarks if profile == "gpu" else []
    if files := [DATA / BENCHMARK_FILES[name] for name in benchmarks if name in BENCHMARK_FILES]:
        common.append(override(FILES, files))
    common += more
    configs: dict[Row, dict[str, Any]] = {}
    refused: dict[str, str] = {}
    for row in rows:
        try:
            configs[row] = of_script(scripts.find(row.script(profile)), common).copy()
        except ValueError as error:
            refused[row.method] = one_line(error)
            continue
        for key in (STEPS, "trainer.save_freq"):
            value = setting(configs[row], key)
            if not isinstance(value, int) or value <= 0:
                raise ResultsError(
                    f"{key}={shown(value)}: a run is done at its last step, with a checkpoint of it; "
                    "give a whole number above 0"
                )
    planned: list[PlannedRun] = []
    for seed in seeds:
        for row, resolved in configs.items():
            name = f"{row.name(profile)}-seed{seed}"
            config, directory = copy.deepcopy(resolved), out / "runs" / name
            for key, value in {**dict.fromkeys(SEEDS, seed), NAME: name, DIRECTORY: str(directory)}.items():
                put(config, key, value)
            own = [override(NAME, name), *(f"{key}={seed}" for key in SEEDS)]
            planned.append(PlannedRun(row, row.script(profile), name, directory, config, (*common, *own)))
    return planned, refused


def refuse_another(run: PlannedRun) -> None:
    """Raise ResultsError where the run's directory holds another training, or one that went further than asked."""
    if wrong := [f"{key} there {there!r:.60}, here {here!r:.60}" for key, there, here in differences(run)]:
        remedy = "give the overrides it had, or another --out"
        raise ResultsError(f"{run.directory} holds another training: {'; '.join(wrong)}; {remedy}")
    if (step := run.state().step) > run.steps:
        remedy = f"give --steps {step}, or another --out"
        raise ResultsError(f"{run.directory} is at step {step}, beyond the {run.steps} asked for; {remedy}")


def differences(run: PlannedRun) -> list[tuple[str, Any, Any]]:
    """(key, there, here) of the settings that define a training, and of the contents of its files where they are here.

    Raises ResultsError where the run's fingerprint cannot be read.
    """
    try:
        different = fingerprint.compare(run.directory, Configuration(run.config))
    except Refused as refused:
        raise ResultsError(one_line(refused)) from refused
    return [(key, there, here) for key, (there, here) in different.items() if here or not key.endswith(")")]


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
        checkpoint = run.directory / f"global_step_{run.steps}"
        return eval_command(run.script, checkpoint, None, self.answers, self.directory, overrides)

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
    file = run.directory / CONFIG  # the configuration that the run was last started with
    started = read_mapping(file) if file.is_file() else run.config
    validates_at_end = not run.state().finished and setting(run.config, "trainer.test_freq") > 0
    if (validates_at_end or own.done()) and validation(started) == wanted:
        return own
    which = hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:8]
    name = f"{run.name}-step{run.steps}-n{wanted[ANSWERS]}-{which}"
    return Evaluation(run, wanted[ANSWERS], out / "evaluations" / name)


def validation(config: dict[str, Any]) -> dict[str, Any]:
    """The settings that a validation's numbers depend on, beside the checkpoint, by dotted key."""
    files = setting(config, FILES) or []
    sampling = {f"{SAMPLING}.{key}": value for key, value in sorted((setting(config, SAMPLING) or {}).items())}
    return {**sampling, FILES: [files] if isinstance(files, str) else files, MOST_ROWS: setting(config, MOST_ROWS)}
