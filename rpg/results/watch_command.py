"""`rpg watch`: running runs as live tables in the terminal. It only reads their files."""

import argparse
import contextlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from rich.columns import Columns
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rpg.results.run_settings import CONFIG, ResultsError, printable, refusing, show_notes
from rpg.results.runs import METRICS, RunLog, find_logs, is_accuracy, load_run

# Label, metrics of verl's log (the first that a run has is shown), format.
SHOWN = (
    ("reward", ("critic/score/mean",), "{:.3f}"),
    ("entropy", ("actor/entropy",), "{:.3f}"),
    ("KL", ("actor/rpg_kl", "actor/kl_loss", "actor/ppo_kl"), "{:.2g}"),
    ("clipped", ("actor/pg_clipfrac",), "{:.2%}"),
    ("response length", ("response_length/mean",), "{:.0f}"),
    ("memory (GB)", ("actor/perf/max_memory_allocated_gb", "perf/max_memory_allocated_gb"), "{:.1f}"),
    ("step (s)", ("timing_s/step",), "{:.1f}"),
)
READ = frozenset(metric for _, metrics, _ in SHOWN for metric in metrics)
BLOCKS = "▁▂▃▄▅▆▇█"
SPARK = 14  # characters of a sparkline
RECENT = 20  # steps whose median time gives the time left
WIDTH = 44  # characters of a run's table
QUIET = 600  # seconds without a new line after which a run's age is shown

Values = dict[str, tuple[pd.Series, str]]  # label: values by step, format


@dataclass
class Watched:
    """A run's log, with its size and mtime (ns) when it was last read."""

    path: Path
    run: RunLog | None = None
    problem: str = "no step yet"
    stamp: tuple[int, int] | None = (-1, -1)

    def read(self) -> bool:
        """Read the log again if it has changed; returns whether it has."""
        status = self.path.stat() if self.path.exists() else None
        stamp = status and (status.st_size, status.st_mtime_ns)
        if stamp == self.stamp:
            return False
        self.stamp = stamp
        try:
            run = load_run(self.path, lambda name: name in READ or is_accuracy(name)) if stamp else None
            self.run = run if run and len(run.metrics.index) else None
        except (ResultsError, OSError) as error:
            self.problem = printable(str(error))
        return True

    @property
    def name(self) -> str:
        """The run's name; its directory's before the first step."""
        return printable(self.run.name if self.run else self.path.parent.name)

    @property
    def ended(self) -> bool:
        """Whether the last planned step is logged."""
        return bool(self.run and self.run.planned_steps and self.run.last_step >= self.run.planned_steps)

    def state(self, now: float) -> str:
        """Step, planned steps and time left (by the median of the last steps), or why there is no step.

        With the age of the last line if the run has been quiet for long.
        """
        if self.run is None:
            return self.problem
        text, planned = f"{self.run.last_step}", self.run.planned_steps
        if planned:
            text += f"/{planned:.0f}"
            times = self.run.series("timing_s/step").tail(RECENT)
            if not self.ended and len(times):
                text += f", {duration((planned - self.run.last_step) * times.median())} left"
        quiet = now - self.stamp[1] / 1e9 if self.stamp else 0
        return f"{text}, last line {duration(quiet)} ago" if quiet > QUIET and not self.ended else text


def values(run: RunLog | None) -> Values:
    """Label -> (values by step, format) of the metrics that a run has, and of the accuracy of each benchmark."""
    shown: Values = {}
    if run is None:
        return shown
    for label, metrics, form in SHOWN:
        series = next((run.series(metric) for metric in metrics if metric in run.metrics), pd.Series(dtype=float))
        if len(series):
            shown[label] = (series, form)
        if label == "reward":
            shown |= {f"{name} accuracy": (points, "{:.3f}") for name, points in run.accuracies().items()}
    return shown


def sparkline(series: pd.Series, width: int = SPARK) -> str:
    """The values as at most `width` block characters, from their minimum to their maximum; more are averaged."""
    bins = np.array([part.mean() for part in np.array_split(series.to_numpy(), min(width, len(series)))])
    span = bins.max() - bins.min()
    heights = (bins - bins.min()) / span * (len(BLOCKS) - 1) if span > 0 else np.zeros(len(bins))
    return "".join(BLOCKS[round(height)] for height in heights)


def duration(seconds: float) -> str:
    """45 s, 12 min, 3.4 h."""
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def screen(all_watched: Sequence[Watched], now: float) -> Columns:
    """A table for each run, with sparklines; as many tables side by side as fit."""
    tables = []
    for watched in all_watched:
        table = Table("", "", "", box=None, pad_edge=False, show_header=False, width=WIDTH, title_justify="left")
        table.title = Text.assemble((watched.name, "bold"), f"  {watched.state(now)}")
        for label, (series, form) in values(watched.run).items():
            table.add_row(Text(label), form.format(series.iloc[-1]), sparkline(series))
        tables.append(table)
    return Columns(tables)


def line(watched: Watched, now: float) -> str:
    """A run's state as one line, for output that is not a terminal."""
    entries = [f"{label} {form.format(series.iloc[-1])}" for label, (series, form) in values(watched.run).items()]
    return "  ".join([watched.name, watched.state(now), *entries])


def watched_logs(path: Path, notes: list[str]) -> list[Path]:
    """The logs below a path; of a run without a step yet, the log that it will write."""
    if (path / CONFIG).is_file() and not (path / METRICS).exists():
        return [path / METRICS]
    return find_logs(path, notes)


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rpg watch`."""
    parser.add_argument("runs", nargs="+", type=Path, metavar="DIR", help="run directory, or a folder of them")
    parser.add_argument("--every", type=float, default=2.0, metavar="SECONDS", help="refresh interval (default: 2)")
    parser.add_argument("--once", action="store_true", help="print the current state and exit")


@refusing
def run(args: argparse.Namespace) -> int:
    """Show the runs until all have logged their last planned step, or Ctrl-C. Returns 2 if there is no run."""
    if not args.every > 0:
        raise ResultsError(f"--every {args.every}: must be a positive number of seconds")
    notes: list[str] = []
    all_watched = [Watched(log) for path in args.runs for log in watched_logs(path, notes)]
    if not all_watched:
        raise ResultsError("; ".join(notes))
    show_notes(notes)
    console = Console()
    with contextlib.suppress(KeyboardInterrupt):  # how a watch ends; the runs go on
        if args.once or not console.is_terminal:
            show(all_watched, args.once, args.every)
        else:
            with Live(console=console, auto_refresh=False) as live:
                show(all_watched, False, args.every, live)
    return 0


def show(all_watched: list[Watched], once: bool, every: float, live: Live | None = None) -> None:
    """Show the runs until all have ended: in the live table, else as a line whenever a log has grown."""
    while True:
        changed = [watched for watched in all_watched if watched.read()]
        if live:
            live.update(screen(all_watched, time.time()), refresh=True)
        else:
            for watched in changed:
                print(line(watched, time.time()), flush=True)
        if once or all(watched.ended for watched in all_watched):
            return
        time.sleep(every)
