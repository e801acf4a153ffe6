"""`rpg reproduce TABLE`: run what is missing of a table or figure of the paper, and write the table.

It skips finished runs and resumes started ones, judging by their directories, so that the same command continues after
Ctrl-C or a kill, and shows the same table when all runs are done.
"""

import argparse
import os
import sys
from pathlib import Path

from rpg.arguments import at_least
from rpg.diagnostics import printable
from rpg.results.messages import ResultsError
from rpg.results.reproduction import cluster, plan_runs, report, run_missing, show_plan
from rpg.results.rows import choose, rows_of, title
from rpg.run.processes import Children
from rpg.run.signals import ENDS
from rpg.run.start import dry_run


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg reproduce`."""
    parser.add_argument(
        "table", type=_of_the_paper, metavar="TABLE", help="3, 5, 6, 7 or 8, figure8 (clip), figure9 (beta, reference)"
    )
    parser.add_argument(
        "overrides", nargs="*", default=[], metavar="OVERRIDE", help="for every script; before the options"
    )
    parser.add_argument(
        "--methods", nargs="+", default=["paper"], metavar="METHOD", help="rows, by their names in the table; "
        "paper (default): all of the paper's; all: with a table also the newer methods (rpg list)"
    )  # fmt: skip
    parser.add_argument("--seeds", nargs="+", type=int, default=[1], metavar="N", help="default: 1")
    parser.add_argument("--profile", choices=["gpu", "cpu"], default="gpu", help="cpu: the same rows on the toy task")
    parser.add_argument("--steps", type=at_least(1), metavar="N", help="training steps (default: the scripts')")
    parser.add_argument(
        "--parallel", type=at_least(1), default=1, metavar="N", help="runs at a time; needs RAY_ADDRESS"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: checkpoints/table8, figure8, table8-cpu, ...")
    parser.add_argument("--dry-run", action="store_true", help="print the plan and stop")


def _of_the_paper(text: str) -> int | str:
    return int(text) if text.isdecimal() else text.lower()


def run(args: argparse.Namespace) -> int:
    """Print the plan, run what is missing, write the table.

    Returns 0 if all is done; 1 if a run or a part of the table is missing; 2 if the command is rejected without
    changes; 130, 143, 129 after a signal. A dry run returns 1 if a row is refused, else 0.
    """
    if dry_run():
        raise ResultsError("DRY_RUN applies to launch scripts; use --dry-run")
    if args.parallel != 1 and not cluster():
        raise ResultsError(f"--parallel {args.parallel}: this machine runs one at a time; set RAY_ADDRESS")
    default = Path("checkpoints", title(args.table).replace(" ", "") + ("-cpu" if args.profile == "cpu" else ""))
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
    code = report(args.table, finished, failures, out) if finished else 1
    for failure in failures:
        print(f"failed: {printable(failure)}", file=sys.stderr)
    return code
