"""`rpg watch`: the progress and last values of running runs, and their newest answers, read from their files."""

import argparse
import time
from contextlib import nullcontext
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.padding import Padding
from rich.text import Text

from rpg.arguments import at_least
from rpg.diagnostics import UserError, fitted, printable
from rpg.files.atomic import SAMPLES
from rpg.files.lock import RUN, held_by
from rpg.results.runs import find, load, read_lines
from rpg.run.time_left import STEP_TIME, time_left

SHOWN = {  # metric -> form
    "actor/rpg_kl": "KL to pi_ref (rpg_kl) {:.2g}", "actor/kl_loss": "KL to pi_ref (kl_loss) {:.2g}",
    "actor/ppo_kl": "KL to pi_old {:.2g}", "actor/entropy": "entropy {:.3f}", "actor/pg_clipfrac": "clipped {:.2%}",
    "response_length/mean": "response length {:.0f}", STEP_TIME: "{:.0f} s a step",
}  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg watch`."""
    runs = "run directories or folders of them (default: checkpoints)"
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help=runs)
    parser.add_argument("--answers", type=at_least(1), metavar="N", help="print the newest answers to N problems")
    parser.add_argument("--once", action="store_true", help="print the present state once and end")


def run(args: argparse.Namespace) -> int:
    """Show the runs until all have logged their last step or stopped; Ctrl-C does not end the runs."""
    directories, console = find(args.runs), Console(highlight=False, markup=False, emoji=False)
    if args.answers:
        for directory in directories:
            show_answers(directory, args.answers, console)
        return 0
    follows = console.is_terminal and not args.once
    with Live(console=console, auto_refresh=False) if follows else nullcontext() as live:
        while True:
            states, have_ended = zip(*map(state, directories), strict=True)
            lines = "\n".join(fitted(map("  ".join, states), 2))
            if live is None:  # a pipe's lines are whole
                print(lines)
                return 0
            live.update(Text(lines), refresh=True)
            if all(have_ended):
                return 0
            time.sleep(2)


def state(directory: Path) -> tuple[list[str], bool]:
    """Return a run's directory, progress and last values, and whether no process holds it.

    Of a run without a lock, as plain verl's, nothing tells whether it goes on.
    """
    name, lock = printable(str(directory)), directory / RUN
    has_ended = lock.is_file() and not held_by(lock)
    try:
        run = load(directory)
    except UserError as error:
        return [name, str(error)], has_ended
    progress = f"{run.step}/{run.planned_steps}" if run.planned_steps else f"step {run.step}"
    if has_ended and run.steps_left:
        progress += ", interrupted"
    elif run.steps_left and lock.is_file():
        progress += f", {time_left(list(run.series(STEP_TIME)), run.steps_left) or 'running'}"
    values = [f"reward {rewards[run.step]:.3f}"] if run.step in (rewards := run.training_reward) else []
    values += [f"{name} {points.dropna().iloc[-1]:.3f}" for name, points in run.accuracies.items()]
    # a metric that became NaN is not shown
    values += [form.format(log[run.step]) for name, form in SHOWN.items() if run.step in (log := run.series(name))]
    return [name, progress, *values], has_ended or (run.planned_steps is not None and not run.steps_left)


def show_answers(directory: Path, count: int, console: Console) -> None:
    """Print the newest saved answers to `count` different problems, which keep their line breaks."""
    newest = max((directory / SAMPLES).glob("*.jsonl"), key=lambda file: int(file.stem), default=None)
    if newest is None:
        raise UserError(f"{directory}: no saved answers yet; a validation saves them")
    samples = read_lines(newest)
    problems = {sample["input"]: sample for sample in samples}
    console.print(f"{newest}: {len(samples)} answers to {len(problems)} problems", soft_wrap=True)
    for sample in list(problems.values())[-count:]:
        for label, key in (("\nproblem", "input"), ("answer", "output"), ("truth", "gts"), ("score", "score")):
            console.print(label, Padding(str(sample[key]).strip(), (0, 0, 0, 2)), sep="\n")
