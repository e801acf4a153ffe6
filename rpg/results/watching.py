"""Running runs as a live table, read from their files."""

import itertools
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from rpg.diagnostics import printable
from rpg.files.lock import RUN, held_by
from rpg.logged import REWARDS, is_validation
from rpg.results.messages import ResultsError
from rpg.results.runs import RunLog, load_run
from rpg.run.time_left import STEP_TIME, duration, time_left

# label, metrics (the first that a run has is shown), format
SHOWN = (
    ("reward", REWARDS, "{:.3f}"),
    ("entropy", ("actor/entropy",), "{:.3f}"),
    ("KL in the loss", ("actor/rpg_kl",), "{:.2g}"),
    ("KL to pi_ref", ("actor/kl_loss",), "{:.2g}"),
    ("KL to pi_old", ("actor/ppo_kl",), "{:.2g}"),
    ("clipped", ("actor/pg_clipfrac",), "{:.2%}"),
    ("response length", ("response_length/mean",), "{:.0f}"),
    ("memory (GB)", ("actor/perf/max_memory_allocated_gb", "perf/max_memory_allocated_gb"), "{:.1f}"),
    ("step (s)", (STEP_TIME,), "{:.1f}"),
)
READ = frozenset(metric for _, metrics, _ in SHOWN for metric in metrics)
BLOCKS = "▁▂▃▄▅▆▇█"
SPARK = 8  # characters of a sparkline
GAP = 1  # characters between two columns
QUIET = 600  # seconds without a new line after which a run's age is shown


@dataclass
class Watched:
    """A run's log, polled by `read`. stamp: its size and mtime (ns) at the last read."""

    path: Path
    run: RunLog | None = None
    problem: str = "no step yet"
    unreadable: bool = False
    stamp: tuple[int, int] = (-1, -1)

    def read(self) -> bool:
        """Read the log again if it has changed; return whether it has."""
        status = self.path.stat() if self.path.exists() else None
        stamp = (status.st_size, status.st_mtime_ns) if status else (0, 0)
        if stamp == self.stamp:
            return False
        self.stamp = stamp
        try:
            run = load_run(self.path, lambda name: name in READ or is_validation(name)) if status else None
            self.run = run if run and len(run.metrics.index) else None
            self.unreadable = False
        except (ResultsError, OSError) as error:
            self.problem, self.unreadable = printable(str(error)), True
        return True

    @property
    def name(self) -> str:
        """The run's name; before the first step that of its directory."""
        return printable(self.run.name if self.run else self.path.parent.name)

    @property
    def ended(self) -> bool:
        """Whether the last planned step is logged; of an evaluation, anything."""
        return bool(self.run and self.run.planned_steps and not self.run.stopped_early)

    @property
    def interrupted(self) -> bool:
        """Whether the run wrote a lock that no process holds, before its last step; False if that cannot be seen."""
        lock = self.path.parent / RUN
        try:
            return not self.ended and lock.is_file() and held_by(lock) is None
        except OSError:  # another user's directory
            return False

    def state(self) -> str:
        """Return step, planned steps, failed rewards, then the interruption or the time left and an old line's age."""
        if self.run is None:
            return f"{self.problem}, interrupted" if self.interrupted and not self.unreadable else self.problem
        last, planned = self.run.last_step, self.run.planned_steps
        parts = [f"{last}/{planned:.0f}" if planned else f"{last}"]
        if self.run.failed:
            parts.append(f"failed rewards: {self.run.failed}")
        if self.interrupted:  # without planned steps it may have ended
            return ", ".join([*parts, f"interrupted at step {last}" if planned else "not running"])
        if planned and last < planned and (left := time_left(list(self.run.series(STEP_TIME)), int(planned - last))):
            parts.append(left)
        if (quiet := time.time() - self.stamp[1] / 1e9) > QUIET and not self.ended:
            parts.append(f"last line {duration(quiet)} ago")
        return ", ".join(parts)

    def values(self) -> dict[str, tuple[str, str]]:
        """Return label -> last value and sparkline of the run's metrics and accuracies."""
        if self.run is None:
            return {}
        shown: dict[str, tuple[pd.Series, str]] = {}
        for label, metrics, form in SHOWN:
            shown[label] = next((own for own in map(self.run.series, metrics) if len(own)), pd.Series()), form
            if label == "reward":
                shown |= {f"{name} accuracy": (points, "{:.3f}") for name, points in self.run.accuracies().items()}
        return {
            label: (form.format(series.iloc[-1]), sparkline(series))
            for label, (series, form) in shown.items()
            if len(series)
        }


def sparkline(series: pd.Series) -> str:
    """Return at most SPARK block characters; longer series are averaged."""
    bins = np.array([part.mean() for part in np.array_split(series.to_numpy(), min(SPARK, len(series)))])
    heights = (bins - bins.min()) / (np.ptp(bins) or 1.0) * (len(BLOCKS) - 1)
    return "".join(BLOCKS[round(height)] for height in heights)


def names(all_watched: Sequence[Watched]) -> list[str]:
    """Return the runs' names; for runs of one name those of their directories."""
    number = Counter(watched.name for watched in all_watched)
    return [watched.name if number[watched.name] == 1 else printable(watched.path.parent.name)
            for watched in all_watched]  # fmt: skip


def screen(all_watched: Sequence[Watched], width: int, height: int | None = None) -> RenderableType:
    """Return one row per run, with sparklines below the values if the width allows.

    In a narrow terminal a run's name and progress have a line of their own, and columns that do not fit are left out.
    More runs than fit into the height have their name and progress alone.
    """
    runs = list(zip(names(all_watched), [watched.state() for watched in all_watched], strict=True))
    values = [watched.values() for watched in all_watched]
    widths = {
        label: max(SPARK, *map(len, label.split()), *(len(own[label][0]) for own in values if label in own)) + GAP
        for label in sorted({label: None for own in values for label in own}, key=_place)
    }
    rows = [{label: Text("\n".join(own.get(label, "–"))) for label in widths} for own in values]
    if sum(max(map(len, texts)) + GAP for texts in zip(*runs, strict=True)) + sum(widths.values()) <= width:
        whole = [{"run": Text(name), "step": Text(state), **row} for (name, state), row in zip(runs, rows, strict=True)]
        return _table(["run", "step", *widths], whole, widths)
    if height is not None and 3 * len(runs) + 2 > height:
        return Group(*(Text("  ".join(run), overflow="ellipsis", no_wrap=True) for run in runs))
    ends = zip(widths, itertools.accumulate(widths.values()), strict=True)
    shown = [label for label, end in ends if end <= width]
    parts: list[RenderableType] = [_table(shown, [], widths)]
    for run, row in zip(runs, rows, strict=True):
        parts += [Text("  ".join(run), overflow="fold"), _table(shown, [row], widths, show_header=False)]
    return Group(*parts)


def _place(label: str) -> float:
    """Return a column's place; accuracies, which a run may not have yet, follow the reward."""
    return next((place for place, (known, *_) in enumerate(SHOWN) if known == label), 0.5)


def _table(
    headings: Sequence[str], rows: Sequence[Mapping[str, Text]], widths: Mapping[str, int], show_header: bool = True
) -> Table:
    made = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold", show_header=show_header)
    for heading in headings:
        made.add_column(Text(heading), width=widths[heading] - GAP if heading in widths else None)
    for row in rows:
        made.add_row(*(row[heading] for heading in headings))
    return made


def show(all_watched: list[Watched], once: bool, every: float, live: Live | None = None) -> None:
    """Update the live table until all runs have ended, or without one print a line per run when its log grows."""
    while True:
        changed = [watched.read() for watched in all_watched]
        if live:
            live.update(screen(all_watched, *live.console.size), refresh=True)
        else:
            for one, name in itertools.compress(zip(all_watched, names(all_watched), strict=True), changed):
                values = (f"{label} {value}" for label, (value, _) in one.values().items())
                print(name, one.state(), *values, sep="  ", flush=True)
        if once or all(watched.ended for watched in all_watched):
            return
        time.sleep(every)
