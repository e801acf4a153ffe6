"""`rpg reproduce TABLE`: run what is missing of a table of the paper, and write the table.

It skips finished runs and resumes started ones, judging by their directories, so that the same command continues after
Ctrl-C or a kill, and shows the same table when all runs are done.
"""

import argparse
import os
import shlex
import sys
import time
from collections import deque
from collections.abc import Sequence
from pathlib import Path

from rpg.config.check import Refused
from rpg.files.atomic import write_whole
from rpg.files.lock import RUN, held_by
from rpg.results import figures
from rpg.results.plot_command import plot
from rpg.results.reproduction import PlannedRun, choose, cluster, plan_runs, refusal, refuse_another, rows_of
from rpg.results.run_settings import Note, ResultsError, exit_code, printable, refusing, setting
from rpg.results.runs import load_runs
from rpg.results.table import build_table, paper_table
from rpg.results.table_command import comma_separated, markdown
from rpg.run.processes import Children
from rpg.run.processes import exit_code as shell_code
from rpg.run.signals import ENDS

POLL_SECONDS = 0.5
LOCK_SECONDS = 180.0  # for a run of an earlier start to end


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg reproduce`."""
    parser.add_argument("table", type=int, metavar="TABLE", help="the paper's table: 3, 5, 6, 7 or 8")
    parser.add_argument("overrides", nargs="*", metavar="OVERRIDE", help="for every script; before the options")
    parser.add_argument(
        "--methods", nargs="+", default=["paper"], metavar="METHOD", help="rows, by their names in the table; "
        "paper (default): all of the paper's; all: also GRPO-corrected"
    )  # fmt: skip
    parser.add_argument("--seeds", nargs="+", type=int, default=[1], metavar="N", help="default: 1")
    parser.add_argument("--profile", choices=["gpu", "cpu"], default="gpu", help="cpu: the same rows on the toy task")
    parser.add_argument("--steps", type=int, metavar="N", help="training steps (default: the scripts')")
    parser.add_argument("--parallel", type=int, default=1, metavar="N", help="runs at a time; needs RAY_ADDRESS")
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: checkpoints/table<TABLE>[-cpu]")
    parser.add_argument("--dry-run", action="store_true", help="print the plan and stop")


@refusing
def run(args: argparse.Namespace) -> int:
    """Print the plan, run what is missing, write the table.

    Returns 0 if all is done; 1 if a run or a part of the table is missing; 2 if the command is rejected without
    changes; 130, 143, 129 after a signal. A dry run returns 1 if a row is refused, else 0.
    """
    if args.parallel != 1 and not cluster():
        raise ResultsError(f"--parallel {args.parallel}: this machine runs one at a time; set RAY_ADDRESS")
    default = Path("checkpoints", f"table{args.table}" + ("-cpu" if args.profile == "cpu" else ""))
    out = Path(os.path.abspath(args.out or default))
    rows = choose(rows_of(args.table), args.methods)
    planned, refused = plan_runs(rows, args.profile, list(dict.fromkeys(args.seeds)), args.steps, out, args.overrides)
    possible = show_plan(planned, refused)
    if args.dry_run:
        return 1 if refused else 0
    if not possible:
        reasons = dict.fromkeys(line for why in refused.values() for line in why.splitlines())
        raise ResultsError(f"no run can start; {'; '.join(reasons)}")
    failures = [f"{name}: {'; '.join(why.splitlines())}" for name, why in refused.items()]
    children = Children()
    with children.forwarding():
        failures += run_missing(possible, out / "logs", args.parallel, children)
    if children.stopped:
        print(f"rpg reproduce: {children.stopped.name}; the same command continues", file=sys.stderr)
        return ENDS[children.stopped]
    finished = [run for run in possible if run.finished()]
    code = report(args, finished, failures, out) if finished else 1
    for failure in failures:
        print(f"failed: {printable(failure)}", file=sys.stderr)
    return code


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
    on_gpus = [one for one in planned if setting(one.config, "trainer.device") == "cuda"]
    hint = f"; `rpg plan {on_gpus[0].row.name()}` estimates the time of a run" if on_gpus else ""
    print(f"{done} of {len(planned)} runs done, {left} steps left{hint}", flush=True)
    return possible


def run_missing(planned: Sequence[PlannedRun], logs: Path, parallel: int, children: Children) -> list[str]:
    """Run what is missing, `parallel` runs at a time, until the end or a signal; return failures with reasons."""
    waiting, active, failures = deque(run for run in planned if not run.finished()), {}, []
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
                print(f"{one.name}: begins after step {one.step()}; {log}", flush=True)
                active[children.start(command, log)] = one, log
        time.sleep(POLL_SECONDS)
        for process in [process for process in active if process.poll() is not None]:
            one, log = active.pop(process)
            done = one.finished()
            print(f"{one.name}: {'done' if done else 'not done'}", flush=True)
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


def report(args: argparse.Namespace, finished: Sequence[PlannedRun], failures: Sequence[str], out: Path) -> int:
    """Write table.md, table.csv, panels and page; print the table."""
    missing = [Note(f"not in this table: {failure}", left_out=True) for failure in failures]
    runs, notes = load_runs([run.directory for run in finished], figures.is_drawn)
    table = build_table(runs, [*missing, *notes], paper_table(args.table))
    written = plot(table, out, f"Table {args.table}, profile {args.profile}")
    for file, content in ((out / "table.md", markdown(table)), (out / "table.csv", comma_separated(table))):
        write_whole(file, content)
        written.append(file)
    print(markdown(table), *written, sep="\n")
    return exit_code(table.notes)
