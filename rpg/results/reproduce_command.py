"""`rpg reproduce TABLE`: the runs behind a table of the paper, what is missing of them, and the table.

Finished runs are never run again and begun ones resume; both are told by their directories, so that the same command
goes on after Ctrl-C or a kill, and shows the same table when there is nothing left to do.
"""

import argparse
import os
import shlex
import statistics
import subprocess
import sys
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rpg.checks.estimate import GPUS, RATES, shape_of, step_seconds
from rpg.files.lock import RUN, Held, held_by, take
from rpg.files.whole import write_whole
from rpg.launching.children import Children
from rpg.launching.children import exit_code as shell_code
from rpg.launching.overrides import BadSetting, check_text
from rpg.launching.signals import ENDS
from rpg.results import figures
from rpg.results.plot_command import plot
from rpg.results.reproduction import (
    Evaluation,
    PlannedRun,
    State,
    choose,
    cluster,
    evaluation,
    plan_runs,
    refusal,
    refuse_another,
    rows_of,
)
from rpg.results.runs import is_accuracy, load_runs
from rpg.results.settings import LeftOut, ResultsError, exit_code, printable, setting
from rpg.results.table import build_table, paper_table
from rpg.results.table_command import comma_separated, markdown

LOCK = "reproduce.lock"
POLL_SECONDS = 0.5
LOCK_SECONDS = 180.0  # that a run of an earlier start has to end, before its directory is given up
Kind = Literal["training", "evaluation"]


@dataclass(frozen=True)
class Failure:
    """What was not done (of a run its training or its evaluation), why, and where its output is."""

    name: str
    reason: str
    log: Path | None = None
    kind: Kind = "training"

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}" + (f"; {self.log}" if self.log else "")


@dataclass(frozen=True)
class Job:
    """A process that trains or evaluates."""

    run: PlannedRun
    kind: Kind
    log: Path
    process: subprocess.Popen[bytes]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg reproduce`."""
    parser.add_argument("table", type=int, metavar="TABLE", help="the paper's table: 3, 5, 6, 7 or 8")
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="for every script; before the options")
    parser.add_argument(
        "--methods", nargs="+", default=["paper"], metavar="METHOD", help="rows, by their names in the table; "
        "paper: all of its (default); all: those beside it too, GRPO-corrected"
    )  # fmt: skip
    parser.add_argument("--seeds", nargs="+", type=int, default=[1], metavar="N", help="default: 1")
    parser.add_argument("--profile", choices=["gpu", "cpu"], default="gpu", help="cpu: the same rows on the toy task")
    parser.add_argument("--steps", type=int, metavar="N", help="training steps (default: the scripts')")
    parser.add_argument(
        "--samples", type=int, metavar="K", help="answers to each row by which the last checkpoints are evaluated "
        "(default: as many as in the runs' validations, whose last one it then is)"
    )  # fmt: skip
    parser.add_argument("--parallel", type=int, default=1, metavar="N", help="jobs at a time; needs RAY_ADDRESS")
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: checkpoints/table<TABLE>[-cpu]")
    parser.add_argument("--gpu", choices=list(GPUS), default="h100", help="what the hours are estimated for")
    parser.add_argument("--dry-run", action="store_true", help="print the plan and stop")


def run(args: argparse.Namespace) -> int:
    """Print the plan, do what is missing, write the table.

    0 when all is done; 1 where a run, or something for the table, is missing; 2 where the command is refused, nothing
    touched; 130, 143, 129 after a signal.
    """
    try:
        out = _checked(args)
        rows = choose(rows_of(args.table), args.methods)
        planned, refused = plan_runs(rows, args.profile, args.seeds, args.steps, out, args.overrides)
        planned = _possible(planned, refused, args, out)
        _show_plan(args, planned, refused, out)
        if not planned:
            raise ResultsError(f"nothing of it can be run; {'; '.join(refused.values())}")
        if args.dry_run:
            _show_missing(planned)
            return 0
        out.mkdir(parents=True, exist_ok=True)
        lock = take(out / LOCK)
    except Held as other:
        return _refuse(f"{out} is {other}")
    except (BadSetting, ResultsError, OSError) as error:
        return _refuse(error)
    try:
        return _work(args, planned, refused, out)
    finally:
        os.close(lock)


def _refuse(error: Exception | str) -> int:
    print(f"rpg reproduce: {printable(str(error))}", file=sys.stderr)
    return 2


def _checked(args: argparse.Namespace) -> Path:
    """The directory for all of it. Raises ResultsError, BadSetting for arguments that cannot be."""
    for name in ("steps", "samples", "parallel"):
        if getattr(args, name) is not None and getattr(args, name) < 1:
            raise ResultsError(f"--{name} {getattr(args, name)}: 1 or more")
    if min(args.seeds) < 0 or len(set(args.seeds)) < len(args.seeds):
        raise ResultsError(f"--seeds {' '.join(map(str, args.seeds))}: different whole numbers, 0 or more")
    if args.parallel > 1 and not cluster():
        raise ResultsError(f"--parallel {args.parallel}: this machine takes one run at a time; set RAY_ADDRESS")
    default = Path("checkpoints", f"table{args.table}" + ("-cpu" if args.profile == "cpu" else ""))
    out = Path(os.path.abspath(args.out or default))
    check_text("--out", str(out))
    return out


def _possible(
    planned: list[PlannedRun], refused: dict[str, str], args: argparse.Namespace, out: Path
) -> list[PlannedRun]:
    """The runs that nothing speaks against; the others are added to `refused`, with the reason."""
    possible: list[PlannedRun] = []
    settings_of: dict[str, str | None] = {}  # method -> what its pre-flight refuses, which no seed changes
    for run in planned:
        try:
            refuse_another(run)
            evaluation(run, args.samples, out).done()
            state = run.state()
        except (ResultsError, OSError) as error:
            refused[run.name] = str(error)
            continue
        method = run.row.method
        if state.saved is None and method not in settings_of:
            settings_of[method] = refusal(run, elsewhere=cluster() or args.dry_run)
        if why := settings_of.get(method) if not state.finished else None:
            refused[method] = why
        else:
            possible.append(run)
    return possible


def _show_plan(args: argparse.Namespace, planned: list[PlannedRun], refused: dict[str, str], out: Path) -> None:
    states = [run.state() for run in planned]
    print(f"table {args.table}, profile {args.profile}: {len(planned)} runs in {out}")
    for run, state in zip(planned, states, strict=True):
        print(f"  {run.name}  {run.row.method}  {state.steps} steps  {state.text}")
    for name, why in refused.items():
        print(f"  {name}: refused: {printable(why)}")
    done, new = (sum(state.text == text for state in states) for text in ("done", "to do"))
    print(f"{done} done, {len(states) - done - new} begun, {new} to do, {len(refused)} refused")
    separate = [one for run in planned if (one := evaluation(run, args.samples, out)).separate]
    print(f"separate evaluations: {sum(not one.done() for one in separate)} of {len(separate)} to do")
    if planned:
        print(_time(planned, states, args), flush=True)


def _show_missing(planned: list[PlannedRun]) -> None:
    """Print what the same command without --dry-run would refuse on this machine: data, model, GPUs."""
    if cluster():
        return
    methods = {run.row.method: run for run in planned}
    missing = [why for run in methods.values() if (why := refusal(run, elsewhere=False))]
    for why in dict.fromkeys(missing):
        print(f"on this machine {missing.count(why)} of {len(methods)} methods would be refused: {printable(why)}")


def _time(planned: list[PlannedRun], states: list[State], args: argparse.Namespace) -> str:
    """The hours of the missing steps: by those that were made, before the first one by the estimate of `rpg plan`."""
    left = sum(state.left for state in states)
    hours = left / 3600 / args.parallel
    if measured := [state.seconds for state in states if state.seconds is not None]:
        step = statistics.median(measured)
        return f"{left} steps left: {hours * step:.3g} hours, at {step:.3g} s a step as measured in these runs"
    if args.profile == "gpu":
        config, gpu = planned[0].config, GPUS[args.gpu]
        try:
            shape = shape_of(str(setting(config, "actor_rollout_ref.model.path")))
        except ValueError:  # which the run's own checks name
            shape = None
        if shape is not None:
            devices = config["trainer"]["n_gpus_per_node"] * config["trainer"]["nnodes"]
            fast, slow = (hours * step_seconds(shape, config, gpu, devices, rates) for rates in RATES)
            explained = f"an estimate for {planned[0].name}, which `rpg plan SCRIPT` explains"
            return f"{left} steps left: {fast:.3g} to {slow:.3g} hours, on {devices} x {gpu.name}; {explained}"
    return f"{left} steps left; hours are not known before the first one"


def _work(args: argparse.Namespace, planned: list[PlannedRun], refused: dict[str, str], out: Path) -> int:
    children = Children()
    with children.forwarding():
        failures = [Failure(name, why) for name, why in refused.items()]
        failures += run_missing(planned, out, args.samples, args.parallel, children)
        if children.stopped:
            print(f"rpg reproduce: {children.stopped.name}; the same command goes on", file=sys.stderr)
            return ENDS[children.stopped]
    try:
        code = _report(args, [run for run in planned if run.state().finished], failures, out)
    except (ResultsError, OSError) as error:
        print(f"rpg reproduce: {printable(str(error))}", file=sys.stderr)
        code = 1
    for failure in failures:
        print(f"failed: {printable(str(failure))}", file=sys.stderr)
    return code or bool(failures)


def run_missing(
    planned: Sequence[PlannedRun], out: Path, answers: int | None, parallel: int, children: Children
) -> list[Failure]:
    """Train and evaluate what is missing, `parallel` runs at a time; what failed.

    Returns when all is done or has failed, or, after a signal, when what was running has ended.
    """
    waiting, active, failures = deque(planned), list[Job](), list[Failure]()
    while waiting or active:
        if children.stopped:
            waiting.clear()
        while waiting and len(active) < parallel and not children.stopped:
            started = _start(waiting.popleft(), out, answers, children)
            if isinstance(started, Job):
                active.append(started)
            elif started:
                failures.append(started)
        time.sleep(POLL_SECONDS if active else 0)
        for job in [job for job in active if job.process.poll() is not None]:
            active.remove(job)
            if failure := None if children.stopped else _failure(job, out, answers):
                failures.append(failure)
            elif job.kind == "training":
                waiting.appendleft(job.run)  # its evaluation is next
    return failures


def _start(run: PlannedRun, out: Path, answers: int | None, children: Children) -> Job | Failure | None:
    """Start what the run lacks, its training or the evaluation of its last checkpoint; None if it has both."""
    kind: Kind = "training"
    try:
        state, last = run.state(), evaluation(run, answers, out)
        if not state.finished:
            command, directory = run.command(), run.directory
        elif last.separate and not last.done():
            kind, command, directory = "evaluation", last.command(), last.directory
        else:
            return None
    except (BadSetting, ResultsError, OSError) as error:
        return Failure(run.name, str(error), kind=kind)
    # the process of an earlier start that was killed may not have ended; a launch script follows a cluster's job itself
    give_up = time.monotonic() + LOCK_SECONDS
    while not cluster() and not children.stopped and (holder := held_by(directory / RUN)):
        if time.monotonic() > give_up:
            return Failure(run.name, f"its directory is {holder}", kind=kind)
        time.sleep(POLL_SECONDS)
    if children.stopped:
        return None
    log = out / "logs" / (f"{run.name}.log" if kind == "training" else f"{run.name}-evaluation.log")
    log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "a", encoding="utf-8") as stream:
        stream.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {shlex.join(command)}\n")
    print(f"{run.name}: {kind} begins ({state.text}); {log}", flush=True)
    return Job(run, kind, log, children.start(command, log))


def _failure(job: Job, out: Path, answers: int | None) -> Failure | None:
    """Why a job that has ended has not done its work; None where it has."""
    try:
        last = evaluation(job.run, answers, out)
        done = job.run.state().finished if job.kind == "training" else last.done()
    except (ResultsError, OSError) as error:
        return Failure(job.run.name, str(error), job.log, job.kind)
    print(f"{job.run.name}: {job.kind} {'done' if done else 'failed'}", flush=True)
    if done:
        return None
    code = shell_code(job.process.returncode)
    missing = "" if code else f", and without step {job.run.steps} in its log and its checkpoint"
    return Failure(job.run.name, f"{job.kind} ended with exit code {code}{missing}", job.log, job.kind)


def _report(args: argparse.Namespace, finished: list[PlannedRun], failures: list[Failure], out: Path) -> int:
    """Write table.md, table.csv, panels, page and, of separate evaluations, evaluation.md; print the tables."""
    if not finished:
        raise ResultsError("no run was finished; there is no table")
    missing: dict[str, list[str]] = {"training": [], "evaluation": []}
    for failure in failures:
        missing[failure.kind].append(LeftOut(f"not in this table: {failure}"))
    paper, notes = paper_table(args.table), missing["training"]
    runs = load_runs([run.directory for run in finished], notes, figures.is_drawn)
    tables = {"table": build_table(runs, notes, paper)}
    written = plot(runs, tables["table"], out, f"Table {args.table}, profile {args.profile}")
    last: list[Evaluation] = [evaluation(run, args.samples, out) for run in finished]
    if separate := [one.directory for one in last if one.separate and one.done()]:
        notes = ["each value is of one checkpoint, which is Last and Best at once", *missing["evaluation"]]
        tables["evaluation"] = build_table(load_runs(separate, notes, is_accuracy), notes, paper)
        tables["evaluation"].title = f"Last checkpoints alone: {tables['evaluation'].title}"
    for name, table in tables.items():
        print(markdown(table))
        for file, content in ((f"{name}.md", markdown(table)), (f"{name}.csv", comma_separated(table))):
            write_whole(out / file, content)
            written.append(out / file)
    print(*written, sep="\n")
    return max(exit_code(table.notes) for table in tables.values())
