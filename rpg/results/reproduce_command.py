"""`rpg reproduce TABLE`: the runs behind a table of the paper, what is missing of them, and the table.

Finished runs are never run again and begun ones resume; both are told by their directories, so that the same command
goes on after Ctrl-C or a kill, and shows the same table when there is nothing left to do.
"""

import argparse
import os
import sys
from pathlib import Path

from rpg.checks.estimate import GPUS
from rpg.files.lock import Held, take
from rpg.files.whole import write_whole
from rpg.launching.children import Children
from rpg.launching.overrides import BadSetting, check_text
from rpg.launching.signals import ENDS
from rpg.results import figures, forecast
from rpg.results.config import LeftOut, ResultsError, exit_code
from rpg.results.paper import paper_table
from rpg.results.plot_command import plot
from rpg.results.render import comma_separated, markdown, printable
from rpg.results.reproduction import (
    FILES,
    PlannedRun,
    cluster,
    evaluation,
    own_config,
    plan_runs,
    refusal,
    refuse_others,
    validation,
)
from rpg.results.rows import choose, rows_of
from rpg.results.run_queue import Failure, RunQueue
from rpg.results.runs import is_accuracy, load_runs
from rpg.results.table import Table, build_table

LOCK = "reproduce.lock"


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
        planned = _readable(planned, refused, args.samples, out)
        refuse_others(planned)
        not_begun = {run.row.method: run for run in planned if run.state().resumes_after is None}
        for method, run in not_begun.items():  # seeds do not differ in it
            if why := refusal(run, elsewhere=cluster() or args.dry_run):
                refused[method] = why
        planned = [run for run in planned if run.row.method not in refused or run.state().finished]
        fits = _show_plan(args, planned, refused, out)
        if not planned:
            raise ResultsError("nothing of it can be run")
        if args.dry_run:
            return 0
        if not fits:
            raise ResultsError("the disk has no room for it")
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
    there = next(folder for folder in (out, *out.parents) if folder.exists())
    if not there.is_dir() or not os.access(there, os.W_OK):
        raise ResultsError(f"--out {out}: {there} is no directory that can be written to; give another one")
    return out


def _readable(planned: list[PlannedRun], refused: dict[str, str], answers: int | None, out: Path) -> list[PlannedRun]:
    """The runs whose logs and configurations can be read; the others are refused by their names."""
    readable = []
    for run in planned:
        try:
            evaluation(run, answers, out).done()
            readable.append(run)
        except (ResultsError, OSError) as error:
            refused[run.name] = str(error)
    return readable


def _refuse(error: Exception | str) -> int:
    print(f"rpg reproduce: {printable(str(error))}", file=sys.stderr)
    return 2


def _show_plan(args: argparse.Namespace, planned: list[PlannedRun], refused: dict[str, str], out: Path) -> bool:
    """Print the plan; whether its checkpoints fit the disk."""
    states = [run.state() for run in planned]
    steps = f" of {planned[0].steps} steps" if planned else ""
    print(f"table {args.table}, profile {args.profile}: {len(planned)} runs{steps} in {out}")
    for state in states:
        print(f"  {state.run.name:<{max(len(run.name) for run in planned)}}  {state.run.row.method:<20}  {state.text}")
    for method, why in refused.items():
        print(f"  {method}: refused: {printable(why)}")
    done = sum(state.finished for state in states)
    new = sum(state.text == "to do" for state in states)
    print(f"{done} done, {len(states) - done - new} begun, {new} to do, {len(refused)} refused")
    last = [evaluation(run, args.samples, out) for run in planned]
    separate = [one for one in last if one.separate]
    missing = sum(not one.done() for one in separate)
    print(
        f"evaluation of last checkpoints: {len(last) - len(separate)} by the runs' last validation, "
        f"{missing} of {len(separate)} to do"
    )
    print(forecast.time(states, GPUS[args.gpu] if args.profile == "gpu" else None, args.parallel))
    line, fits = forecast.disk(states, args.parallel, out)
    print(line, flush=True)
    return fits


def _work(args: argparse.Namespace, planned: list[PlannedRun], refused: dict[str, str], out: Path) -> int:
    children = Children()
    with children.forwarding():
        queue = RunQueue(planned, out, args.samples, args.parallel, children)
        queue.work()
        if children.stopped:
            print(f"rpg reproduce: {children.stopped.name}; the same command goes on", file=sys.stderr)
            return ENDS[children.stopped]
    failures = [*(Failure(method, why) for method, why in refused.items()), *queue.failures]
    try:
        code = _report(args, [run for run in planned if run.state().finished], failures, out)
    except (ResultsError, OSError) as error:
        print(f"rpg reproduce: {printable(str(error))}", file=sys.stderr)
        code = 1
    for failure in failures:
        print(f"failed: {printable(str(failure))}", file=sys.stderr)
    return code or bool(failures)


def _report(args: argparse.Namespace, finished: list[PlannedRun], failures: list[Failure], out: Path) -> int:
    """Write table.md, table.csv, panels, page and, of separate evaluations, evaluation.md; print the tables."""
    if not finished:
        raise ResultsError("no run was finished; there is no table")
    # tables 5 and 7 share their runs, and validate on other files: the second one's report has a folder of its own
    others = any(validation(own_config(run))[FILES] != validation(run.config)[FILES] for run in finished)
    where = out / f"table{args.table}" if others else out
    where.mkdir(exist_ok=True)
    missing: dict[str, list[str]] = {
        kind: [LeftOut(f"not in this table: {failure}") for failure in failures if failure.kind == kind]
        for kind in ("training", "evaluation")
    }
    notes = missing["training"]
    runs = load_runs([run.directory for run in finished], notes, figures.is_drawn)
    table = build_table(runs, notes, paper_table(args.table))
    written = plot(runs, table, where, f"Table {args.table}, profile {args.profile}", replace=True)
    written += _write(table, where, "table")
    left_out = exit_code(table.notes)
    last = [evaluation(run, args.samples, out) for run in finished]
    if separate := [one.directory for one in last if one.separate and one.done()]:
        notes = ["each value is of one checkpoint, which is Last and Best at once", *missing["evaluation"]]
        table = build_table(load_runs(separate, notes, is_accuracy), notes, paper_table(args.table))
        table.title = f"Last checkpoints alone: {table.title}"
        written += _write(table, where, "evaluation")
        left_out = max(left_out, exit_code(table.notes))
    print(*map(str, written), sep="\n")
    return left_out


def _write(table: Table, where: Path, name: str) -> list[Path]:
    """Print a table and write it as markdown and CSV; returns the paths."""
    print(f"{markdown(table)}")
    files = {where / f"{name}.md": markdown(table), where / f"{name}.csv": comma_separated(table)}
    for file, content in files.items():
        write_whole(file, content)
    return list(files)
