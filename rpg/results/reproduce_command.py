"""`rpg reproduce TABLE`: the runs behind a table of the paper, what is missing of them, and the table.

Finished runs are never run again and begun ones go on; both are told by their directories, so that the same command
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
from rpg.results import forecast
from rpg.results.escape import printable
from rpg.results.paper import paper_table
from rpg.results.plot_command import plot
from rpg.results.records import LeftOut, ResultsError, exit_code, read_mapping
from rpg.results.render import comma_separated, markdown
from rpg.results.reproduction import (
    FILES,
    Planned,
    cluster,
    evaluation,
    plan_runs,
    refusal,
    refuse_others,
    validation,
)
from rpg.results.rows import choose, rows_of
from rpg.results.runs import CONFIG, load_runs
from rpg.results.table import build_table
from rpg.results.work import Failure, Kind, Work

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
        elsewhere = cluster() or args.dry_run
        unsaved = {made.row.method: made for made in planned if made.state().resumes_after is None}
        for method, made in unsaved.items():  # seeds do not differ in it
            if why := refusal(made, elsewhere):
                refused[method] = why
        planned = [made for made in planned if made.row.method not in refused or made.state().finished]
        fits = _show_plan(args, planned, refused, out)
    except (BadSetting, ResultsError, OSError) as error:
        return _refuse(error)
    if not planned:
        return _refuse("nothing of it can be run")
    if args.dry_run:
        return 0
    if not fits:
        return _refuse("the disk has no room for it")
    try:
        out.mkdir(parents=True, exist_ok=True)
        lock = take(out / LOCK)
    except Held as other:
        return _refuse(f"{out} is {other}")
    except OSError as error:
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
        what = "cannot be written to" if there.is_dir() else "is a file"
        raise ResultsError(f"--out {out}: {there} {what}; give another directory")
    return out


def _readable(planned: list[Planned], refused: dict[str, str], answers: int | None, out: Path) -> list[Planned]:
    """The runs whose logs and configurations can be read; the others are refused by their names."""
    found = []
    for made in planned:
        try:
            evaluation(made, answers, out).done()
            found.append(made)
        except (ResultsError, OSError) as error:
            refused[made.name] = str(error)
    return found


def _refuse(error: Exception | str) -> int:
    print(f"rpg reproduce: {printable(str(error))}", file=sys.stderr)
    return 2


def _show_plan(args: argparse.Namespace, planned: list[Planned], refused: dict[str, str], out: Path) -> bool:
    """Print the plan; whether its checkpoints fit the disk."""
    states = [made.state() for made in planned]
    wide = max((len(made.name) for made in planned), default=0)
    runs = f"{len(planned)} runs" if len(planned) > 1 else "one run"
    count = f"{runs} of {planned[0].steps} steps" if planned else "no run"
    print(f"table {args.table}, profile {args.profile}: {count} in {out}")
    for state in states:
        print(f"  {state.run.name:<{wide}}  {state.run.row.method:<20}  {state.words}")
    for method, why in refused.items():
        print(f"  {method}: refused: {printable(why)}")
    if not planned:
        return True
    done = sum(state.finished for state in states)
    begun = sum(not state.finished and state.words != "to do" for state in states)
    print(f"{done} done, {begun} begun, {len(states) - done - begun} to do, {len(refused)} refused")
    alone = [made for state in states if (made := evaluation(state.run, args.samples, out)).alone]
    missing = sum(not made.done() for made in alone)
    own = len(states) - len(alone)
    print(f"evaluation of last checkpoints: {own} by the runs' last validation, {missing} of {len(alone)} to do")
    print(forecast.time(states, GPUS[args.gpu] if args.profile == "gpu" else None, args.parallel))
    said, fits = forecast.disk(states, args.parallel, out)
    print(said, flush=True)
    return fits


def _work(args: argparse.Namespace, planned: list[Planned], refused: dict[str, str], out: Path) -> int:
    children = Children()
    with children.forwarding():
        work = Work(planned, out, args.samples, args.parallel, children)
        work.run()
        if children.stopped:
            print(f"rpg reproduce: {children.stopped.name}; the same command goes on", file=sys.stderr)
            return ENDS[children.stopped]
    failures = [*(Failure(method, why) for method, why in refused.items()), *work.failures]
    try:
        code = _report(args, [made for made in planned if made.state().finished], failures, out)
    except (ResultsError, OSError) as error:
        print(f"rpg reproduce: {printable(str(error))}", file=sys.stderr)
        code = 1
    for failure in failures:
        print(f"failed: {printable(str(failure))}", file=sys.stderr)
    return code or bool(failures)


def _report(args: argparse.Namespace, finished: list[Planned], failures: list[Failure], out: Path) -> int:
    """Write table.md, table.csv, panels, page and, of evaluations alone, evaluation.md; print the tables."""
    if not finished:
        raise ResultsError("no run was finished; there is no table")
    where, paper = _report_directory(args.table, finished, out), paper_table(args.table)
    where.mkdir(exist_ok=True)
    notes = _missing(failures, "training")
    runs = load_runs([made.directory for made in finished], notes)
    table = build_table(runs, notes, paper)
    written = plot(runs, table, where, f"Table {args.table}, profile {args.profile}")
    write_whole(where / "table.md", markdown(table))
    write_whole(where / "table.csv", comma_separated(table))
    print(markdown(table), end="")
    written += [where / "table.md", where / "table.csv"]
    left_out = exit_code(table.notes)
    made = [evaluation(one, args.samples, out) for one in finished]
    if alone := [one.directory for one in made if one.alone and one.done()]:
        notes = ["each value is of one checkpoint, which is Last and Best at once", *_missing(failures, "evaluation")]
        table = build_table(load_runs(alone, notes), notes, paper_table(args.table))
        table.title = f"Last checkpoints alone: {table.title}"
        write_whole(where / "evaluation.md", markdown(table))
        print(f"\n{markdown(table)}", end="")
        written.append(where / "evaluation.md")
        left_out = max(left_out, exit_code(table.notes))
    print(*map(str, written), sep="\n")
    return left_out


def _missing(failures: list[Failure], kind: Kind) -> list[str]:
    return [LeftOut(f"not in this table: {failure}") for failure in failures if failure.kind == kind]


def _report_directory(table: int, finished: list[Planned], out: Path) -> Path:
    """`out`, or its folder for this table where the runs are another table's, whose report stands in `out`.

    Tables 5 and 7 share their runs, and validate on other files.
    """
    others = any(validation(read_mapping(made.directory / CONFIG))[FILES] != validation(made.config)[FILES]
                 for made in finished if (made.directory / CONFIG).is_file())  # fmt: skip
    return out / f"table{table}" if others else out
