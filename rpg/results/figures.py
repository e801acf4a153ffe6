"""The paper's panels: validation accuracy of every benchmark, critic score, entropy, response length; off-policy's."""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from rpg.results.escape import picture
from rpg.results.methods import BENCHMARKS, Look, looks_of, order_of
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
PANELS = 6
MOST_PANELS = 60  # twenty rows; a PNG of many more pixels cannot be written
SMOOTHING = 0.1  # a running mean over this share of the steps; raw values stay visible behind it
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
    series: tuple[tuple[tuple[int, float], ...], ...]
    metric: str | None = None


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


def shown_metrics(panels: Sequence[Panel]) -> list[str]:
    """The training metrics among the panels."""
    return [panel.metric for panel in panels if panel.metric]


def draw(axes: Axes, panel: Panel, legend: Legend) -> None:
    """Draw one panel; every line has the gid run-<i>, by which the page hides it."""
    axes.set_title(picture(panel.title), loc="left")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6))
    for index, (label, points) in enumerate(zip(legend.labels, panel.series, strict=True)):
        if not points:
            continue
        look = legend.looks[label]
        steps, values = zip(*points, strict=True)
        gid = f"run-{index}"
        if panel.metric is None:
            axes.plot(steps, values, color=look.colour, linestyle=look.dash, marker="o", markersize=4, gid=gid)
        else:
            axes.plot(steps, values, color=look.colour, linewidth=0.8, alpha=0.3, gid=f"{gid}-raw")
            axes.plot(steps, smooth(values), color=look.colour, linestyle=look.dash, gid=gid)


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
        height = 2.7 * rows + 0.3 * legend_rows + 0.2
        fig = Figure(figsize=(3.6 * columns, height), layout="constrained")
        all_axes = fig.subplots(rows, columns, squeeze=False).flatten()
        for axes, panel in zip(all_axes, panels, strict=False):
            draw(axes, panel, legend)
        for axes in all_axes[len(panels) :]:
            axes.set_axis_off()
        for axes in all_axes[max(0, len(panels) - columns) : len(panels)]:
            axes.set_xlabel("step")
        lines = [
            Line2D([], [], color=legend.looks[label].colour, linestyle=legend.looks[label].dash) for label in shown
        ]
        fig.legend(lines, names, loc="outside lower center", ncols=legend_columns, frameon=False, handlelength=3)
        return fig


def single(panel: Panel, legend: Legend) -> str:
    """One panel as SVG text, for the page."""
    with matplotlib.rc_context(STYLE):
        fig = Figure(figsize=(4.4, 3.0), layout="constrained")
        axes = fig.subplots()
        draw(axes, panel, legend)
        axes.set_xlabel("step")
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
