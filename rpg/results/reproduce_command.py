"""`rpg reproduce TABLE`: print and start the commands of a table or figure of the paper, and write the table.

A command starts a launch script, which skips a finished run, resumes a begun one and refuses another training, so that
the same command continues after Ctrl-C or a kill.
"""

import argparse
import ctypes
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

from rpg.arguments import at_least
from rpg.config.compose import of_script
from rpg.config.verl_keys import ACTOR, ROLLOUT
from rpg.diagnostics import printable
from rpg.files.atomic import METRICS, write_whole
from rpg.overrides import key_of, override
from rpg.registry import scripts
from rpg.registry.datasets import validation_files
from rpg.results import figures
from rpg.results.formats import comma_separated, markdown, show
from rpg.results.messages import LeftOut, ResultsError, exit_code
from rpg.results.rows import Profile, Row, choose, paper, rows_of, title
from rpg.results.runs import load_runs
from rpg.results.table import build_table
from rpg.run import signals
from rpg.run.directory import brief
from rpg.run.start import dry_run

POLL_SECONDS = 0.5
PR_SET_PDEATHSIG = 1
# set by --seeds: order of the problems, vLLM's sampling, shuffling of mini-batches
SEEDS = ("data.seed", f"{ROLLOUT}.seed", f"{ACTOR}.data_loader_seed")
NAME, DIRECTORY, STEPS = "trainer.experiment_name", "trainer.default_local_dir", "trainer.total_training_steps"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg reproduce`."""
    tables = "3, 5, 6, 7 or 8, figure8 (clip), figure9 (beta, reference)"
    parser.add_argument("table", type=_of_the_paper, metavar="TABLE", help=tables)
    more = "for every script; before the options"
    parser.add_argument("overrides", nargs="*", default=[], metavar="OVERRIDE", help=more)
    methods = "rows, by their names in the table; paper (default): all of the paper's; all: also newer ones (rpg list)"
    parser.add_argument("--methods", nargs="+", default=["paper"], metavar="METHOD", help=methods)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1], metavar="N", help="default: 1")
    parser.add_argument("--profile", choices=["gpu", "cpu"], default="gpu", help="cpu: the same rows on the toy task")
    parser.add_argument("--steps", type=at_least(1), metavar="N", help="training steps (default: the scripts')")
    at_once = "runs at a time; needs RAY_ADDRESS"
    parser.add_argument("--parallel", type=at_least(1), default=1, metavar="N", help=at_once)
    parser.add_argument("--out", type=Path, metavar="DIR", help="default: checkpoints/table8, figure8, table8-cpu, ...")
    parser.add_argument("--dry-run", action="store_true", help="print the commands and stop")


def _of_the_paper(text: str) -> int | str:
    return int(text) if text.isdecimal() else text.lower()


def run(args: argparse.Namespace) -> int:
    """Print the commands, run them, write the table.

    Returns 0 if all is done; 1 if a run or a part of the table is missing; 2 if the command is rejected without
    changes; 130, 143, 129 after a signal. A dry run returns 1 if a row is refused, else 0.
    """
    if dry_run():
        raise ResultsError("DRY_RUN applies to launch scripts; use --dry-run")
    if args.parallel != 1 and not os.environ.get("RAY_ADDRESS"):
        raise ResultsError(f"--parallel {args.parallel}: this machine runs one at a time; set RAY_ADDRESS")
    default = Path("checkpoints", title(args.table).replace(" ", "") + ("-cpu" if args.profile == "cpu" else ""))
    out = Path(os.path.abspath(args.out or default))
    rows = choose(rows_of(args.table), args.methods)
    planned = plan(rows, args.profile, list(dict.fromkeys(args.seeds)), args.steps, out, args.overrides)
    refused = [one for one in planned if one.refusal]
    for one in planned:
        print(shlex.join(one.command))
    for one in refused:
        print(f"refused: {one.name}: {printable(one.refusal)}")
    if args.dry_run:
        return 1 if refused else 0
    failures = [f"{one.name}: {one.refusal}" for one in refused]
    signals.raise_from_now()
    try:
        failures += run_all([one for one in planned if not one.refusal], out / "logs", args.parallel)
    except KeyboardInterrupt:
        print(f"rpg reproduce: {signals.WORDS[signals.ending()]}; the same command continues", file=sys.stderr)
        return signals.ENDS[signals.ending()]
    done = [one.directory for one in planned if (one.directory / METRICS).is_file()]
    code = report(args.table, done, failures, out) if done else 1
    for failure in failures:
        print(f"failed: {printable(failure)}", file=sys.stderr)
    return code


@dataclass(frozen=True)
class Planned:
    """One run: its name, directory and command, and why its script rejects it ("" if it does not)."""

    name: str
    directory: Path
    command: list[str]
    refusal: str


def plan(
    rows: Sequence[Row], profile: Profile, seeds: Sequence[int], steps: int | None, out: Path, more: Sequence[str]
) -> list[Planned]:
    """Return the runs of these rows, seed by seed; steps: None for the scripts'; more: overrides for every script.

    Raises ResultsError for an override of a key that the command sets.
    """
    for text in more:
        if key_of(text) in {*SEEDS, NAME, DIRECTORY, STEPS, "trainer.total_epochs", "trainer.val_only"}:
            raise ResultsError(f"{text}: the command sets this key (--seeds, --steps, --out); leave the override out")
    common = [*([] if steps is None else [f"{STEPS}={steps}"]), *more]
    in_print = paper(rows[0].table)
    if files := validation_files(in_print.benchmarks) if in_print and profile == "gpu" else []:
        common.insert(0, f"data.val_files=[{','.join(f'${{rpg.data_dir}}/{file}' for file in files)}]")
    named = {row: scripts.find(row.name(profile)) for row in rows}
    refusals = {}
    for row, script in named.items():
        try:
            of_script(script, common)
            refusals[row] = ""
        except ValueError as error:
            refusals[row] = str(error)
    planned = []
    for seed in seeds:
        for row, script in named.items():
            name = f"{script.name}-seed{seed}"
            directory = out / "runs" / name
            own = [override(DIRECTORY, directory), override(NAME, name), *(f"{key}={seed}" for key in SEEDS)]
            planned.append(Planned(name, directory, [*script.command, *own, *common], refusals[row]))
    return planned


def run_all(planned: Sequence[Planned], logs: Path, parallel: int) -> list[str]:
    """Run the commands, `parallel` at a time; return failures. A signal's KeyboardInterrupt ends them first.

    A single run writes to this terminal, several to a log each.
    """
    waiting, active, failures = [*planned], dict[subprocess.Popen, Planned](), []
    try:
        while active or waiting:
            while waiting and len(active) < parallel:
                one = waiting.pop(0)
                log = logs / f"{one.name}.log" if parallel > 1 else None
                print(f"{one.name}: begins ({len(waiting)} wait){f'; {brief(log)}' if log else ''}", flush=True)
                active[begin(one.command, log)] = one
            time.sleep(POLL_SECONDS)
            for process in [process for process in active if process.poll() is not None]:
                one = active.pop(process)
                print(f"{one.name}: {f'exit code {process.returncode}' if process.returncode else 'done'}", flush=True)
                if process.returncode:
                    failures.append(f"{one.name}: ended with exit code {process.returncode}")
        return failures
    finally:
        for process in active:
            process.terminate()
        for process in active:
            process.wait()


def begin(command: list[str], log: Path | None) -> subprocess.Popen:
    """Start a command that gets SIGTERM when this process dies; its output is appended to log, if there is one.

    A launch script takes the interpreter of this process.
    """
    libc, environment = ctypes.CDLL(None), {**os.environ, "PYTHON": sys.executable}
    if log:
        log.parent.mkdir(parents=True, exist_ok=True)
    with open(log, "ab") if log else nullcontext() as stream:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=stream, stderr=stream, env=environment,
            preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0),
        )  # fmt: skip


def report(of: int | str, done: Sequence[Path], failures: Sequence[str], out: Path) -> int:
    """Write table.md, table.csv and panels; print the table."""
    missing = [LeftOut(f"not complete in this table: {failure}") for failure in failures]
    runs, notes = load_runs(done, figures.is_drawn)
    table = build_table(runs, [*missing, *notes], paper(of))
    written = figures.plot(table, out)
    for file, content in ((out / "table.md", markdown(table)), (out / "table.csv", comma_separated(table))):
        write_whole(file, content)
        written.append(file)
    show(table)
    print("", *written, sep="\n")
    return exit_code(table.notes)
