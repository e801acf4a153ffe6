"""The runs behind a table of the paper: what each is to be, and how far it is, by its directory alone."""

import copy
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from rpg.checks import fingerprint, preflight
from rpg.checks.check import Refused
from rpg.checks.check import Run as Configuration
from rpg.launching import scripts
from rpg.launching.compose import of_script
from rpg.launching.overrides import key_of, override
from rpg.methods.names import table_script
from rpg.methods.registry import ROWS
from rpg.results.run_settings import ResultsError, put, setting
from rpg.results.runs import METRICS, is_accuracy, read_metrics
from rpg.results.table import paper_table

Profile = Literal["gpu", "cpu"]
RECIPE = Path(__file__).resolve().parents[2] / "recipe" / "rpg"
DATA = RECIPE.parents[1] / "data"
# Benchmarks that the scripts do not validate on by themselves: the files of data/ that hold them.
BENCHMARK_FILES = {"Minerva-Math": "minerva-math.parquet", "OlympiadBench": "olympiadbench.parquet"}
# What differs from seed to seed: the order of the problems, vLLM's sampling, the mini-batches where they are shuffled.
SEEDS = ("data.seed", "actor_rollout_ref.rollout.seed", "actor_rollout_ref.actor.data_loader_seed")
NAME, DIRECTORY, STEPS = "trainer.experiment_name", "trainer.default_local_dir", "trainer.total_training_steps"
# Settings that the command sets itself: an override of one is refused.
OWN = {*SEEDS, NAME, DIRECTORY, STEPS, "trainer.total_epochs", "trainer.val_only"}


@dataclass(frozen=True)
class Row:
    """A row of a table: the paper's name of the method; printed: whether the paper's table has it."""

    table: int
    method: str
    printed: bool

    def script(self, profile: Profile = "gpu") -> Path:
        """The launch script, on GPUs or of the toy task."""
        return RECIPE / table_script(self.method, self.table, profile)

    def name(self, profile: Profile = "gpu") -> str:
        """What the launch script calls its run."""
        return self.script(profile).stem.removeprefix("run_")


def rows_of(table: int) -> list[Row]:
    """The rows of a table in the paper's order, then those beside it.

    Raises:
        ResultsError: the paper has no such table of results.
    """
    printed = list(paper_table(table).rows)
    beside = [method.label for method in ROWS if method.beside]
    return [Row(table, label, label in printed) for label in [*printed, *beside]]


def choose(rows: list[Row], methods: list[str]) -> list[Row]:
    """The rows that are asked for, in their own order: by method, whatever its case; `paper`, `all`.

    Raises:
        ResultsError: a method that is none of theirs.
    """
    wanted = {method.lower() for method in methods}
    if unknown := wanted - {row.method.lower() for row in rows} - {"paper", "all"}:
        known = ", ".join(row.method for row in rows)
        raise ResultsError(f"--methods {min(unknown)}: no row of table {rows[0].table}; there are {known}, paper, all")
    return [
        row for row in rows if "all" in wanted or ("paper" in wanted and row.printed) or row.method.lower() in wanted
    ]


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

    def step(self) -> int:
        """The last step in its log, 0 where there is none. Raises ResultsError where the log cannot be read."""
        file = self.directory / METRICS
        log = read_metrics(file, [], is_accuracy).index if file.is_file() else []
        return int(log[-1]) if len(log) else 0

    def finished(self) -> bool:
        """Whether the last step is in its log, which is written after the checkpoint. Raises ResultsError as `step`."""
        return self.step() >= self.steps

    def command(self) -> list[str]:
        """The launch script, as it would be called by hand.

        A run that was ended between its last checkpoint and the record of its last step has no step left to make:
        verl then validates before training, and that is the record.
        """
        last = (self.directory / f"global_step_{self.steps}").is_dir()
        overrides = [*self.overrides, "trainer.val_before_train=true"] if last else self.overrides
        return ["bash", str(self.script), override(DIRECTORY, self.directory), *overrides]


def plan_runs(
    rows: Sequence[Row], profile: Profile, seeds: Sequence[int], total: int | None, out: Path, more: Sequence[str]
) -> tuple[list[PlannedRun], dict[str, str]]:
    """The runs of these rows, all rows of a seed before the next seed; and of rows whose script refuses, why.

    Args:
        total: training steps; None for the scripts' own. more: overrides for every script.

    Raises:
        ResultsError: an override of what the command itself sets. BadSetting: a path that no configuration can hold.
    """
    for text in more:
        if key_of(text) in OWN:
            raise ResultsError(f"{text}: the command sets this key (--seeds, --steps, --out); leave the override out")
    common = [] if total is None else [f"{STEPS}={total}"]
    benchmarks = paper_table(rows[0].table).benchmarks if profile == "gpu" else []
    if files := [DATA / BENCHMARK_FILES[name] for name in benchmarks if name in BENCHMARK_FILES]:
        common.append(override("data.val_files", files))
    common += more
    configs: dict[Row, dict[str, Any]] = {}
    refused: dict[str, str] = {}
    for row in rows:
        try:
            configs[row] = of_script(scripts.find(row.script(profile)), common).copy()
        except ValueError as error:
            refused[row.method] = str(error)
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
    """Raise ResultsError where the run's directory holds another training, or one that went further than asked.

    Raises Refused where the run's fingerprint cannot be read.
    """
    different = fingerprint.compare(run.directory, Configuration(run.config))
    wrong = [
        f"{key} there {there!r:.60}, here {here!r:.60}"
        for key, (there, here) in different.items()
        if here or not key.endswith(")")  # the contents of its files count where they are here
    ]
    if wrong:
        remedy = "give the overrides it had, or another --out"
        raise ResultsError(f"{run.directory} holds another training: {'; '.join(wrong)}; {remedy}")
    if (step := run.step()) > run.steps:
        remedy = f"give --steps {step}, or another --out"
        raise ResultsError(f"{run.directory} is at step {step}, beyond the {run.steps} asked for; {remedy}")


def cluster() -> bool:
    """Whether the runs become jobs of a cluster."""
    return bool(os.environ.get("RAY_ADDRESS"))


def refusal(run: PlannedRun) -> str | None:
    """What the run's own pre-flight would refuse, a diagnostic a line; None where that is nothing.

    Of a cluster's job only the settings are looked at: files and machine are there.
    """
    config = copy.deepcopy(run.config)
    put(config, "trainer.resume_mode", "disable")  # else all bytes of its checkpoints would be read
    try:
        preflight.refuse(Configuration(config), ["cheap"], ["settings"] if cluster() else preflight.SUBJECTS)
    except Refused as refused:
        return str(refused)
    return None
