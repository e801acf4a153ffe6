"""`rpg reproduce TABLE`: print and start the commands of a table or figure of the paper, and print the table.

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
from collections.abc import Sequence
from pathlib import Path

from rpg.arguments import at_least
from rpg.config.verl_keys import ROLLOUT
from rpg.diagnostics import UserError
from rpg.files.atomic import METRICS
from rpg.overrides import key_of, override
from rpg.registry import scripts
from rpg.registry.datasets import BENCHMARKS
from rpg.registry.methods import FIGURES, ROWS, TABLES, script_of
from rpg.results.formats import show
from rpg.results.runs import load_runs, show_notes
from rpg.results.table import build_table, paper_table
from rpg.run import signals

PR_SET_PDEATHSIG = 1
SEEDS = ("data.seed", f"{ROLLOUT}.seed")  # set by --seeds: order of the problems, vLLM's sampling
OF_SCRIPT = ("method", "rpg.method", "rpg.divergence")
NAME, DIRECTORY, STEPS = "trainer.experiment_name", "trainer.default_local_dir", "trainer.total_training_steps"


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg reproduce`."""
    add = parser.add_argument
    add("table", metavar="TABLE", help="3, 5, 6, 7 or 8, figure8 (clip), figure9 (beta, reference)")
    add("overrides", nargs="*", default=[], metavar="OVERRIDE", help="Hydra overrides for every script")
    methods = "rows to run: names in the table, paper (default: the paper's rows) or all (newer methods, too)"
    add("--methods", nargs="+", default=["paper"], metavar="METHOD", help=methods)
    add("--seeds", nargs="+", type=int, default=[1], metavar="N", help="seeds, one run each (default: 1)")
    add("--profile", choices=["gpu", "cpu"], default="gpu", help="cpu: the same rows on the toy task (default: gpu)")
    add("--steps", type=at_least(1), metavar="N", help="training steps (default: the scripts')")
    add("--out", type=Path, metavar="DIR", help="folder of the runs (default: checkpoints/table8, ...)")
    add("--dry-run", action="store_true", help="print the commands and stop")


def run(args: argparse.Namespace) -> int:
    """Print the commands, run them one after another, print the table.

    Returns 0 if all is done, 1 if a run failed, 2 if the command is rejected without changes; 130, 143, 129 after a
    signal.
    """
    table = int(args.table) if args.table.isdecimal() else args.table.lower()
    name = ("" if table in FIGURES else "table") + args.table.lower() + ("-cpu" if args.profile == "cpu" else "")
    out = Path(os.path.abspath(args.out or Path(os.environ.get("CKPTS_DIR", "checkpoints"), name)))
    common = [*args.overrides, *([] if args.steps is None else [f"{STEPS}={args.steps}"])]
    chosen = choose(table, args.methods)
    planned = plan(table, chosen, args.profile, list(dict.fromkeys(args.seeds)), out, common)
    print(*map(shlex.join, planned.values()), sep="\n")
    if args.dry_run:
        return 0
    failures = []
    signals.raise_from_now()
    try:
        for number, (directory, command) in enumerate(planned.items(), start=1):
            print(f"{directory.name}: run {number} of {len(planned)}", flush=True)
            if code := call(command):
                failures.append(f"failed: {directory.name}: ended with exit code {code}")
    except KeyboardInterrupt:
        print(f"rpg reproduce: {signals.WORDS[signals.ending()]}; the same command continues", file=sys.stderr)
        return signals.ENDS[signals.ending()]
    if any((directory / METRICS).is_file() for directory in planned):
        show(build_table(load_runs([out / "runs"]), None if table in FIGURES else int(table)))
        print(f"next: {shlex.join(['rpg', 'plot', str(out)])}")
    show_notes(failures)
    return int(bool(failures))


def choose(table: int | str, methods: Sequence[str]) -> list[str]:
    """Return the labels of a table's rows, or of a figure's lines, of these methods (any case; `paper`, `all`).

    Raises UserError for a table or method that is not there.
    """
    if table not in TABLES:
        raise UserError(f"{table}: tables of results and figures of ablations are {', '.join(map(str, TABLES))}")
    printed = list(FIGURES[table] if table in FIGURES else paper_table(int(table)).rows)
    beside = [row.label for row in ROWS if row.beside and table not in FIGURES]
    chosen = {label: [label] for label in [*printed, *beside]} | {"paper": printed, "all": [*printed, *beside]}
    by_name, wanted = {name.lower(): labels for name, labels in chosen.items()}, set[str]()
    for asked in methods:
        if asked.lower() not in by_name:
            raise UserError(f"--methods {asked}: no row of {table}; there are {', '.join(chosen)}")
        wanted.update(by_name[asked.lower()])
    return [label for label in chosen["all"] if label in wanted]


def plan(
    table: int | str, labels: Sequence[str], profile: str, seeds: Sequence[int], out: Path, common: list[str]
) -> dict[Path, list[str]]:
    """Return the command of each run, by its directory, seed by seed; common: overrides for every script.

    Raises UserError for an override of a key that the command sets.
    """
    for text in common:
        if key_of(text) in {*SEEDS, *OF_SCRIPT, NAME, DIRECTORY, "trainer.total_epochs", "trainer.val_only"}:
            raise UserError(f"{text}: the command sets this key (--seeds, --steps, --out); leave the override out")
    printed = paper_table(int(table)).benchmarks if table not in FIGURES and profile == "gpu" else []
    sets = [BENCHMARKS[name] for name in printed]
    if files := [file for row in sets if row.repeat == 1 for file in row.files]:  # on the others the scripts validate
        common = [f"data.val_files=[{','.join(f'${{rpg.data_dir}}/{file}' for file in files)}]", *common]
    found = [scripts.find(script_of(label, table, "cpu" if profile == "cpu" else "")) for label in labels]
    planned = {}
    for seed, script in ((seed, script) for seed in seeds for script in found):
        name = f"{script.name}-seed{seed}"
        of_run = [override(DIRECTORY, out / "runs" / name), override(NAME, name), *(f"{key}={seed}" for key in SEEDS)]
        planned[out / "runs" / name] = [*script.command, *of_run, *common]
    return planned


def call(command: list[str]) -> int:
    """Run a command to its end, with the interpreter of this process; return its exit code.

    It gets SIGTERM when this process dies or is interrupted.
    """
    libc, environment = ctypes.CDLL(None), {**os.environ, "PYTHON": sys.executable}
    process = subprocess.Popen(
        command, stdin=subprocess.DEVNULL, env=environment,
        preexec_fn=lambda: libc.prctl(PR_SET_PDEATHSIG, signal.SIGTERM, 0, 0, 0),
    )  # fmt: skip
    try:
        return process.wait()
    finally:
        process.terminate()  # without effect on one that has ended
        process.wait()
