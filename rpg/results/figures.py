"""The paper's panels: validation accuracy of every benchmark, critic score, entropy, response length; off-policy's."""

import io
import math
import statistics
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from rpg.methods.labels import looks_of, order_of
from rpg.methods.table import Look
from rpg.results.benchmarks import BENCHMARKS
from rpg.results.escape import picture
from rpg.results.runs import Run
from rpg.results.table import Table

# Panels after the benchmarks': title, metric of verl's log.
TRAINING_PANELS = (
    ("critic score (training reward)", "critic/score/mean"),
    ("entropy", "actor/entropy"),
    ("response length (tokens)", "response_length/mean"),
)
# Shown where a run has them and they are not 0 throughout, as staleness is where the trainer waits for its rollouts.
OFF_POLICY_PANELS = (
    ("off-policy: effective sample size", "training/off_policy/ess"),
    ("off-policy: KL(sampler, trained)", "training/off_policy/kl"),
    ("off-policy: staleness (weight versions)", "training/off_policy/trajectory_staleness/mean"),
    ("off-policy: clipped above (share)", "actor/rpg_clipfrac_high"),
    ("off-policy: clipped below (share)", "actor/rpg_clipfrac_low"),
    ("off-policy: clipped at c (share)", "actor/rpg_clipfrac_c"),
)
# Shown instead where a run set has fewer than three benchmarks, so that there are six panels all the same.
MORE_PANELS = (
    ("KL of pi_old from pi_theta", "actor/ppo_kl"),
    ("clipped tokens (share)", "actor/pg_clipfrac"),
)
STEP, MINUTES = "step", "minutes"  # what panels may be drawn against
PANELS = 6
MOST_PANELS = 60  # twenty rows; a PNG of many more pixels cannot be written
SMOOTHING = 0.1  # a running mean over this share of the steps; raw values stay visible behind it
BANDS = "several seeds: mean, and in the band its standard error"
LEGEND_LETTERS = 42  # that fit below one panel
STYLE: dict[Any, Any] = {  # matplotlib's own type lists every key
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "svg.fonttype": "none",
    "svg.hashsalt": "rpg",
    "lines.linewidth": 1.8,
}


@dataclass(frozen=True)
class Panel:
    """One picture: `series[i]` belongs to the i-th run; validation panels (no `metric`) have dots, no smoothing."""

    title: str
    series: tuple[tuple[tuple[float, float], ...], ...]
    metric: str | None = None
    against: str = STEP


@dataclass(frozen=True)
class Legend:
    """What a run is called in pictures, and how it is drawn."""

    labels: tuple[str, ...]
    looks: dict[str, Look]


def make_legend(runs: Sequence[Run], table: Table) -> Legend:
    """The label of each run is its row's in the table; runs that differ by the seed alone share one."""
    label_of = {id(run): row.label for row in table.rows for run in row.runs}
    labels = tuple(label_of[id(run)] for run in runs)
    return Legend(labels, looks_of(sorted(set(labels))))


def make_panels(runs: Sequence[Run]) -> list[Panel]:
    """Benchmarks in the paper's order, the training metrics that a run has, those of off-policy training; six in all
    where there are that many."""
    accuracies = [run.accuracies() for run in runs]
    seen = {name for found in accuracies for name in found}
    benchmarks = [name for name in dict.fromkeys([*BENCHMARKS, *sorted(seen)]) if name in seen]
    panels = [
        Panel(f"{name} accuracy", tuple(tuple(found.get(name, ())) for found in accuracies)) for name in benchmarks
    ]
    panels += _panels(runs, TRAINING_PANELS)
    panels += [panel for panel in _panels(runs, OFF_POLICY_PANELS) if any(y for line in panel.series for _, y in line)]
    return panels + _panels(runs, MORE_PANELS)[: max(0, PANELS - len(panels))]


def _panels(runs: Sequence[Run], wanted: Sequence[tuple[str, str]]) -> list[Panel]:
    """Those of the metrics that a run has."""
    made = [Panel(title, tuple(tuple(run.series(metric)) for run in runs), metric) for title, metric in wanted]
    return [panel for panel in made if any(panel.series)]


def against_minutes(panels: Sequence[Panel], runs: Sequence[Run]) -> list[Panel]:
    """The panels over minutes of training (`Run.minutes`) in place of steps."""
    times = [run.minutes() for run in runs]
    made = []
    for panel in panels:
        named = zip(panel.series, times, strict=True)
        series = tuple(tuple((time[int(step)], y) for step, y in points if step in time) for points, time in named)
        made.append(replace(panel, series=series, against=MINUTES))
    return made


def shown_metrics(panels: Sequence[Panel]) -> list[str]:
    """The training metrics among the panels."""
    return [panel.metric for panel in panels if panel.metric]


def draw(axes: Axes, panel: Panel, legend: Legend) -> None:
    """Draw one panel: a line a run, or a label's mean with a band where several runs share it (`band`).

    Every line has the gid run-<i>, by which the page hides it; i is the label's first run.
    """
    axes.set_title(picture(panel.title), loc="left")
    axes.xaxis.set_major_locator(MaxNLocator(integer=panel.against == STEP, nbins=6))
    for label in dict.fromkeys(legend.labels):
        look, gid = legend.looks[label], f"run-{legend.labels.index(label)}"
        members = _members(panel, legend, label)
        marker = "o" if panel.metric is None else None
        smoothed = members if panel.metric is None else [tuple(_smoothed(points)) for points in members]
        if seeds := band(smoothed):
            steps, means, errors = seeds
            low = [mean - error for mean, error in zip(means, errors, strict=True)]
            high = [mean + error for mean, error in zip(means, errors, strict=True)]
            axes.fill_between(steps, low, high, color=look.colour, alpha=0.15, linewidth=0, gid=f"{gid}-band")
            smoothed = [tuple(zip(steps, means, strict=True))]
        elif panel.metric is not None:
            for points in members:
                axes.plot(*zip(*points, strict=True), color=look.colour, linewidth=0.8, alpha=0.3, gid=f"{gid}-raw")
        for points in smoothed:
            line = zip(*points, strict=True)
            axes.plot(*line, color=look.colour, linestyle=look.dash, marker=marker, markersize=4, gid=gid)


def _members(panel: Panel, legend: Legend, label: str) -> list[tuple[tuple[float, float], ...]]:
    """The series of the runs of one label that have any."""
    named = zip(legend.labels, panel.series, strict=True)
    return [points for other, points in named if other == label and points]


def _smoothed(points: Sequence[tuple[float, float]]) -> Iterator[tuple[float, float]]:
    steps, values = zip(*points, strict=True)
    return zip(steps, smooth(values), strict=True)


def band(members: Sequence[tuple[tuple[float, float], ...]]) -> tuple[list[float], list[float], list[float]] | None:
    """Steps that all runs have, mean and its standard error; None for one run, and where not all are as far.

    A run that was resumed validates where it was, which the others do not.
    """
    if len(members) < 2 or len({points[-1][0] for points in members}) > 1:
        return None
    by_step = [dict(points) for points in members]
    steps = sorted(set(by_step[0]).intersection(*by_step[1:]))
    values = [[points[step] for points in by_step] for step in steps]
    errors = [statistics.stdev(at_step) / math.sqrt(len(members)) for at_step in values]
    return steps, [statistics.fmean(at_step) for at_step in values], errors


def banded(panels: Sequence[Panel], legend: Legend) -> bool:
    """Whether a band over seeds is drawn in any panel."""
    return any(band(_members(panel, legend, label)) for panel in panels for label in set(legend.labels))


def smooth(values: Sequence[float]) -> list[float]:
    """Centred running mean; shorter at both ends, so that it begins and ends on data."""
    reach = max(1, math.ceil(len(values) * SMOOTHING / 2))
    windows = [values[max(0, i - reach) : i + reach + 1] for i in range(len(values))]
    return [math.fsum(window) / len(window) for window in windows]


def figure(panels: Sequence[Panel], legend: Legend) -> Figure:
    """All panels in rows of three, one legend below."""
    with matplotlib.rc_context(STYLE):
        columns = min(3, len(panels))
        rows = math.ceil(len(panels) / columns)
        shown = sorted(set(legend.labels), key=order_of)
        names = [picture(label) for label in shown]
        widest = max(map(len, names))
        legend_columns = max(1, min(len(shown), 4, int(LEGEND_LETTERS * columns / (widest + 8))))
        legend_rows = math.ceil(len(shown) / legend_columns)
        several = banded(panels, legend)
        height = 2.7 * rows + 0.3 * (legend_rows + several) + 0.2
        fig = Figure(figsize=(3.6 * columns, height), layout="constrained")
        all_axes = fig.subplots(rows, columns, squeeze=False).flatten()
        for axes, panel in zip(all_axes, panels, strict=False):
            draw(axes, panel, legend)
        for axes in all_axes[len(panels) :]:
            axes.set_axis_off()
        for axes in all_axes[max(0, len(panels) - columns) : len(panels)]:
            axes.set_xlabel(panels[0].against)
        lines = [
            Line2D([], [], color=legend.looks[label].colour, linestyle=legend.looks[label].dash) for label in shown
        ]
        title = BANDS if several else None
        fig.legend(
            lines, names, loc="outside lower center", ncols=legend_columns, frameon=False, handlelength=3, title=title
        )
        return fig


def single(panel: Panel, legend: Legend) -> str:
    """One panel as SVG text, for the page."""
    with matplotlib.rc_context(STYLE):
        fig = Figure(figsize=(4.4, 3.0), layout="constrained")
        axes = fig.subplots()
        draw(axes, panel, legend)
        axes.set_xlabel(panel.against)
        return svg(fig)


def svg(fig: Figure) -> str:
    """A figure as an <svg> element, without the XML head and without a date, so that it repeats."""
    out = io.StringIO()
    with matplotlib.rc_context(STYLE):
        fig.savefig(out, format="svg", metadata={"Date": None})
    text = out.getvalue()
    return text[text.index("<svg") :]


def save(fig: Figure, directory: Path, stem: str = "panels") -> list[Path]:
    """Write <stem>.png and <stem>.svg; returns their paths."""
    paths = [directory / f"{stem}.png", directory / f"{stem}.svg"]
    with matplotlib.rc_context(STYLE):
        fig.savefig(paths[0], dpi=110, metadata={"Software": None})
        fig.savefig(paths[1], metadata={"Date": None})
    return paths
