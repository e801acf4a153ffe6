"""The planned runs of a paper's table or figure, their progress, read from their directories, and their execution."""

import contextlib
import copy
import os
import shlex
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tqdm import tqdm

from rpg.checks import preflight
from rpg.config import fingerprint
from rpg.config.compose import of_script
from rpg.config.keys import KEYS
from rpg.config.run_config import RunConfig
from rpg.diagnostics import Refused, printable
from rpg.dotted import put
from rpg.files.atomic import METRICS, write_whole
from rpg.files.integrity import Choice
from rpg.files.lock import RUN, held_by
from rpg.logged import is_validation
from rpg.overrides import key_of, override
from rpg.registry import recipe
from rpg.registry.datasets import validation_files
from rpg.results import figures
from rpg.results.formats import comma_separated, markdown, show
from rpg.results.messages import Note, ResultsError, exit_code
from rpg.results.rows import Profile, Row, paper
from rpg.results.run_settings import setting
from rpg.results.runs import load_runs, read_metrics
from rpg.results.table import build_table
from rpg.run.processes import Children, brief
from rpg.run.processes import exit_code as shell_code

POLL_SECONDS = 0.5
LOCK_SECONDS = 180.0  # for a run of an earlier start to end
# set by --seeds: order of the problems, vLLM's sampling, shuffling of mini-batches
SEEDS = tuple(KEYS[name] for name in ("data_seed", "rollout_seed", "loader_seed"))
NAME, DIRECTORY, STEPS = (KEYS[name] for name in ("run_name", "directory", "steps"))
# set by the command; overrides are rejected
OWN = {*SEEDS, NAME, DIRECTORY, STEPS, KEYS["epochs"], KEYS["val_only"]}


@dataclass(frozen=True)
class PlannedRun:
    """One run of a reproduction.

    Attributes:
        name: script and seed. directory: the run's directory.
        config: resolved configuration. overrides: arguments of the script besides name and directory.
    """

    row: Row
    script: recipe.Script
    name: str
    directory: Path
    config: dict[str, Any]
    overrides: tuple[str, ...]

    @property
    def steps(self) -> int:
        """Number of training steps."""
        return setting(self.config, "steps")

    def step(self) -> int:
        """Return the last step in the log, 0 without a log. Raises ResultsError if the log cannot be read."""
        file = self.directory / METRICS
        log = read_metrics(file, is_validation)[0].index if file.is_file() else []
        return int(log[-1]) if len(log) else 0

    def finished(self) -> bool:
        """Return whether the last step is in the log, which is written after the checkpoint. Raises as `step`."""
        return self.step() >= self.steps

    def command(self) -> list[str]:
        """Return the command of the launch script.

        A run that was killed between its last checkpoint and the log of its last step has no step left: verl then
        validates before training, which is logged as that step.
        """
        last = (self.directory / f"global_step_{self.steps}").is_dir()
        overrides = [*self.overrides, f"{KEYS['val_before_train']}=true"] if last else self.overrides
        return [*self.script.command, override(DIRECTORY, self.directory), *overrides]


def plan_runs(
    rows: Sequence[Row], profile: Profile, seeds: Sequence[int], total: int | None, out: Path, more: Sequence[str]
) -> tuple[list[PlannedRun], dict[str, str]]:
    """Return the runs of these rows, seed by seed, and the reasons of rows that the script rejects.

    Args:
        total: training steps; None for the scripts' defaults. more: overrides for every script.

    Raises:
        ResultsError: an override of a key that the command sets. BadSetting: a path that a configuration cannot hold.
    """
    for text in more:
        if key_of(text) in OWN:
            raise ResultsError(f"{text}: the command sets this key (--seeds, --steps, --out); leave the override out")
    common = [] if total is None else [f"{STEPS}={total}"]
    in_print = paper(rows[0].table)
    benchmarks = in_print.benchmarks if in_print and profile == "gpu" else []
    if files := [f"${{rpg.data_dir}}/{file}" for file in validation_files(benchmarks)]:
        common.append(f"{KEYS['val_files']}=[{','.join(files)}]")
    common += more
    named = {row: recipe.find(row.name(profile)) for row in rows}
    configs: dict[Row, dict[str, Any]] = {}
    refused: dict[str, str] = {}
    for row in rows:
        try:
            configs[row] = of_script(named[row], common).copy()
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
            planned.append(PlannedRun(row, named[row], name, directory, config, (*common, *own)))
    return planned, refused


def refuse_another(run: PlannedRun) -> None:
    """Raise ResultsError if the run's directory holds another training, or one with more steps than requested.

    Raises Refused if the run's fingerprint cannot be read.
    """
    different = fingerprint.compare(run.directory, RunConfig(run.config))
    differences = [
        f"{key} there {there!r:.60}, here {here!r:.60}"
        for key, (there, here) in different.items()
        # compare the files' contents only if they are here; a model that is elsewhere has a name for its config.json
        if not key.endswith(")") or (here and (fingerprint.is_hash(here) or not fingerprint.is_hash(there)))
    ]
    if differences:
        remedy = "give the overrides it had, or another --out"
        raise ResultsError(f"{run.directory} holds another training: {'; '.join(differences)}; {remedy}")
    if (step := run.step()) > run.steps:
        remedy = f"give --steps {step}, or another --out"
        raise ResultsError(f"{run.directory} is at step {step}, beyond the {run.steps} asked for; {remedy}")


def cluster() -> bool:
    """Return whether the runs become jobs of a cluster."""
    return bool(os.environ.get("RAY_ADDRESS"))


def refusal(run: PlannedRun) -> str | None:
    """Return the errors of the run's preflight, one per line, or None.

    For a cluster job it checks only the settings, because files and machine are the cluster's.
    """
    unread = Choice(None, (), None)  # otherwise all bytes of its checkpoints would be read
    try:
        preflight.refuse(RunConfig(run.config, unread), ["cheap"], ["settings"] if cluster() else preflight.SUBJECTS)
    except Refused as refused:
        return str(refused)
    return None


def show_plan(planned: Sequence[PlannedRun], refused: dict[str, str]) -> list[PlannedRun]:
    """Print the plan and return the runs to make; `refused` also gets those that cannot start, with the reason."""
    possible: list[PlannedRun] = []
    preflights: dict[str, str | None] = {}  # method -> its preflight's errors, equal for all seeds
    done = left = 0
    for one in planned:
        try:
            refuse_another(one)
            step = one.step()
        except (Refused, ResultsError, OSError) as error:
            refused[one.name] = str(error)
            continue
        method = one.row.method
        if step < one.steps and method not in preflights:
            preflights[method] = refusal(one)
        if step < one.steps and (why := preflights[method]):
            refused[method] = why
        else:
            possible.append(one)
        done += step >= one.steps
        left += max(0, one.steps - step)
        print(f"  {one.name}  {method}  step {step} of {one.steps}")
    for reasons in dict.fromkeys(refused.values()):
        names = [name for name, why in refused.items() if why == reasons]
        print(f"  refused: {', '.join(names)}", *(f"    {printable(line)}" for line in reasons.splitlines()), sep="\n")
    on_gpus = [one for one in planned if setting(one.config, "device") == "cuda"]
    hint = f"; `rpg plan {on_gpus[0].row.name()}` estimates its memory" if on_gpus else ""
    print(f"{done} of {len(planned)} runs done, {left} steps left{hint}", flush=True)
    return possible


def run_missing(planned: Sequence[PlannedRun], logs: Path, parallel: int, children: Children) -> list[str]:
    """Run what is missing, `parallel` runs at a time, until the end or a signal; return failures with reasons.

    In a terminal a bar counts the steps of all runs; its time left assumes that the coming steps take as long.
    """
    steps = {run.name: run.step() for run in planned}
    waiting, active, failures = deque(run for run in planned if steps[run.name] < run.steps), {}, []
    total, initial = sum(run.steps for run in planned), sum(steps.values())
    with tqdm(
        total=total, initial=initial, desc="all runs", unit="step", smoothing=0, dynamic_ncols=True, disable=None
    ) as bar:

        def say(text: str) -> None:
            with bar.external_write_mode():
                print(text, flush=True)

        while active or (waiting and not children.stopped):
            while waiting and len(active) < max(1, parallel) and not children.stopped:
                one = waiting.popleft()
                if holder := wait_until_free(one.directory, children):
                    failures.append(f"{one.name}: its directory is {holder}")
                elif not children.stopped:
                    log = logs / f"{one.name}.log"
                    log.parent.mkdir(parents=True, exist_ok=True)
                    command = one.command()
                    with open(log, "a", encoding="utf-8") as stream:
                        stream.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {shlex.join(command)}\n")
                    say(f"{one.name}: begins after step {one.step()}; {brief(log)}")
                    active[children.start(command, log)] = one, log
            time.sleep(POLL_SECONDS)
            if not bar.disable:
                with contextlib.suppress(ResultsError, OSError):  # of a log being written; it is read again at the end
                    steps |= {one.name: one.step() for one, _ in active.values()}
                bar.n = sum(steps.values())
                bar.refresh()
            for process in [process for process in active if process.poll() is not None]:
                one, log = active.pop(process)
                done = one.finished()
                say(f"{one.name}: {'done' if done else 'not done'}")
                if not done and not children.stopped:
                    code = shell_code(process.returncode)
                    failures.append(f"{one.name}: ended at step {one.step()} with exit code {code}; {log}")
    return failures


def wait_until_free(directory: Path, children: Children) -> str | None:
    """Wait up to LOCK_SECONDS for the process of a killed earlier start; return who still holds the directory.

    On a cluster the launch script follows the job itself.
    """
    give_up = time.monotonic() + LOCK_SECONDS
    while (holder := None if cluster() else held_by(directory / RUN)) and not children.stopped:
        if time.monotonic() > give_up:
            return holder
        time.sleep(POLL_SECONDS)
    return None


def report(of: int | str, finished: Sequence[PlannedRun], failures: Sequence[str], out: Path) -> int:
    """Write table.md, table.csv and panels; print the table."""
    missing = [Note(f"not in this table: {failure}", left_out=True) for failure in failures]
    runs, notes = load_runs([run.directory for run in finished], figures.is_drawn)
    table = build_table(runs, [*missing, *notes], paper(of))
    written = figures.plot(table, out)
    for file, content in ((out / "table.md", markdown(table)), (out / "table.csv", comma_separated(table))):
        write_whole(file, content)
        written.append(file)
    show(table)
    print("", *written, sep="\n")
    return exit_code(table.notes)
