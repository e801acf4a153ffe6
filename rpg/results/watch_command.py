"""`rpg watch`: the progress and last values of running runs, and their newest answers, read from their files."""

import argparse
import textwrap
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path

from rich.console import Console
from rich.live import Live
from rich.text import Text

from rpg.arguments import at_least
from rpg.diagnostics import printable
from rpg.dotted import value_at
from rpg.files.atomic import CONFIG, METRICS, SAMPLES
from rpg.files.lock import RUN, held_by
from rpg.logged import REWARDS, is_validation
from rpg.results.messages import ResultsError, end_of, show_notes
from rpg.results.runs import find, load, or_checkpoints, read_lines, read_mapping
from rpg.run.time_left import STEP_TIME, time_left

SHOWN = {  # metric -> form
    "actor/rpg_kl": "KL to pi_ref (rpg_kl) {:.2g}", "actor/kl_loss": "KL to pi_ref (kl_loss) {:.2g}",
    "actor/ppo_kl": "KL to pi_old {:.2g}", "actor/entropy": "entropy {:.3f}", "actor/pg_clipfrac": "clipped {:.2%}",
    "response_length/mean": "response length {:.0f}", STEP_TIME: "{:.0f} s a step",
}  # fmt: skip


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg watch`."""
    parser.add_argument("runs", nargs="*", type=Path, metavar="RUN", help="as for `rpg table`")
    parser.add_argument("--every", type=float, default=2.0, metavar="SECONDS", help="between two updates; default: 2")
    parser.add_argument("--answers", type=at_least(1), metavar="N", help="print the newest answers to N problems")
    parser.add_argument("--once", action="store_true", help="print the present state and end")


def run(args: argparse.Namespace) -> int:
    """Show the runs until all have logged their last step; Ctrl-C does not end the runs. Returns 2 without a run."""
    directories, notes = find(or_checkpoints(args.runs), (METRICS, CONFIG, RUN))
    if not directories:
        raise ResultsError("; ".join(notes))
    code, console = show_notes(notes), Console(highlight=False, markup=False, emoji=False)
    if args.answers:
        print(
            *(line for directory in directories for line in answers(directory, args.answers, console.width)), sep="\n"
        )
        return code
    live = Live(console=console, auto_refresh=False) if console.is_terminal and not args.once else None
    before: tuple[str, ...] = ()
    with live or nullcontext():
        while True:
            states, have_ended = zip(*map(state, directories), strict=True)
            if live:
                live.update(Text("\n".join(states), overflow="ellipsis"), refresh=True)
            for text in () if live else (text for text in states if text not in before):
                console.print(text, soft_wrap=not console.is_terminal)
            if args.once or all(have_ended):
                return code
            before = states
            time.sleep(args.every)


def state(directory: Path) -> tuple[str, bool]:
    """Return a run's progress and last values, and whether it has logged its last step."""
    name = directory.resolve().name  # seeds may share trainer.experiment_name
    is_alive = True
    try:
        is_alive = not (lock := directory / RUN).is_file() or held_by(lock) is not None
        run = load(directory, lambda name: name in SHOWN or name in REWARDS or is_validation(name))
    except (ResultsError, OSError) as error:
        reason = str(error) if (directory / METRICS).exists() else "no step yet"
        return printable(f"{name}  {reason}{'' if is_alive else ', interrupted'}"), False
    parts = [f"{run.last_step}/{run.planned_steps}" if run.planned_steps else f"{run.last_step}"]
    if run.stopped_early and run.planned_steps:
        left = time_left(list(run.series(STEP_TIME)), run.planned_steps - run.last_step)
        parts.append((left or "running") if is_alive else f"interrupted at step {run.last_step}")
    parts += [f"failed rewards: {run.failed}"] if run.failed else []
    values = [f"reward {run.training_reward.iloc[-1]:.3f}"] if len(run.training_reward) else []
    values += [f"{name} {points.dropna().iloc[-1]:.3f}" for name, points in run.accuracies.items()]
    values += [form.format(own.iloc[-1]) for metric, form in SHOWN.items() if len(own := run.series(metric))]
    return printable(f"{name}  {', '.join(parts)}  {'  '.join(values)}"), not run.stopped_early


def answers(directory: Path, count: int, width: int) -> Iterator[str]:
    """Yield lines with the newest saved answers to `count` different problems, which keep their line breaks."""
    config = read_mapping(directory / CONFIG) if (directory / CONFIG).is_file() else {}
    trainer = value_at(config, "trainer") or {}
    folders = (directory / SAMPLES, trainer.get("validation_data_dir"), trainer.get("rollout_data_dir"))
    files = [file for folder in filter(None, folders) for file in Path(folder).glob("*.jsonl")]
    if not files:
        raise ResultsError(f"{directory}: no saved answers yet; steps save theirs with trainer.rollout_data_dir=DIR")
    newest = max(files, key=lambda file: file.stat().st_mtime)
    samples = read_lines(newest, lambda line: (line["input"], line["output"], line["gts"], line["score"]))[0]
    problems = {sample[0]: sample for sample in samples}
    yield f"{newest}: {len(samples)} answers to {len(problems)} problems"
    for sample in list(problems.values())[-count:]:
        yield ""
        for label, text in zip(("problem", "answer", "truth", "score"), map(str, sample), strict=True):
            for number, line in enumerate(end_of(text.strip(), 3000).split("\n")):
                yield textwrap.fill(f"{'' if number else label:<8} {printable(line)}", width,
                                    subsequent_indent=" " * 9, break_long_words=False)  # fmt: skip
