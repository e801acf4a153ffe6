"""The paper's panels (accuracy per benchmark, critic score, entropy, response length), KL, and off-policy panels."""

import io
import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast, get_args

import matplotlib
import pandas as pd

matplotlib.use("Agg")
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from rpg.diagnostics import printable
from rpg.files.atomic import write_whole
from rpg.logged import ALL_GROUPS, REWARDS, is_validation
from rpg.registry.methods import LOOKS, Dash, Look, base_method, order_of
from rpg.results.messages import ResultsError, about
from rpg.results.samples import pass_by_step
from rpg.results.table import Table

CREATOR = "rpg plot"  # metadata of each file
KL = "KL to the reference (nats)"
# panels after the benchmarks': title, metric of verl's log; omitted if no run has the metric or it is always 0, like
# the staleness of synchronous runs
PANELS = {
    KL: "actor/rpg_kl",
    "critic score (training reward)": ALL_GROUPS,  # or that of the batch (Run.training_reward)
    "entropy (nats)": "actor/entropy",
    "response length (tokens)": "response_length/mean",
    "clipped tokens (share)": "actor/pg_clipfrac",
    "off-policy: effective sample size": "training/off_policy/ess",
    "KL(sampler, trained) (nats)": "training/off_policy/kl",
    "staleness (weight versions)": "training/off_policy/trajectory_staleness/mean",
}
DRAWN = frozenset([*PANELS.values(), *REWARDS])
SMOOTHING = 0.1  # share of the steps in a running mean; raw values stay visible behind it
SMOOTHED = 20  # steps from which a line is smoothed
MOST_INTERVALS = 8  # rows of a panel that shows intervals
TITLE, LEGEND = 34, 30  # characters that fit above a panel, and below it beside a line
STYLE: dict[Any, Any] = {  # matplotlib's type lists every key
    "font.size": 11, "axes.titlesize": 12, "lines.linewidth": 1.8, "axes.grid": True, "grid.color": "#e4e4e4",
    "axes.spines.top": False, "axes.spines.right": False, "svg.fonttype": "none", "svg.hashsalt": "rpg",
    "text.parse_math": False,  # no mathtext for a dollar in a name
}  # fmt: skip
DASHES: tuple[Dash, ...] = get_args(Dash)
# viridis, without its lightest yellow
COLOURS = LinearSegmentedColormap.from_list("", ("#440154", "#3b528b", "#21918c", "#5ec962", "#d8b919"))


@dataclass(frozen=True)
class Panel:
    """One panel.

    rows: label of a table's row -> values by step of each of its runs. intervals: label -> 95 % interval over problems
    of the last value, of single runs with samples.
    """

    title: str
    rows: dict[str, list[pd.Series]]
    is_validation: bool = False
    intervals: dict[str, tuple[float, float]] = field(default_factory=dict)


def is_drawn(metric: str) -> bool:
    """Return whether `rpg plot` reads a metric for the panels or the table."""
    return metric in DRAWN or is_validation(metric)


def make_panels(table: Table, pass_at: int | None = None) -> list[Panel]:
    """Return panels: benchmarks in the table's order, then the logged metrics of training and off-policy training.

    pass_at: k of pass@k by step, a panel more for each benchmark; the table gets notes on samples that are left out.
    """

    def panel(name: str, frames: dict[str, list[Any]]) -> Panel:
        rows = {label: [frame[name].dropna() for frame in own if name in frame] for label, own in frames.items()}
        return Panel(name, {label: own for label, own in rows.items() if own}, is_validation=True)

    accuracies = {label: [run.accuracies.add_suffix(" accuracy") for run in runs] for label, runs in table.rows.items()}
    panels = [panel(f"{name} accuracy", accuracies) for name in table.benchmarks]
    for cell in table.cells.dropna(subset="last_low").itertuples() if len(table.rows) <= MOST_INTERVALS else ():
        [own] = [panel for panel in panels if panel.title == f"{cell.benchmark} accuracy"]
        own.intervals[cell.method] = (cell.last_low, cell.last_high)
    if pass_at is not None:
        passed: dict[str, list[Any]] = {label: [] for label in table.rows}
        for label, run in ((label, run) for label, runs in table.rows.items() for run in runs):
            frame, notes = pass_by_step(run, pass_at)
            passed[label].append(frame.add_suffix(f" pass@{pass_at}"))
            table.notes += [about(run.name, note) for note in notes]
        panels += [own for name in table.benchmarks if (own := panel(f"{name} pass@{pass_at}", passed)).rows]
    for title, metric in PANELS.items():
        rows = {label: [series for run in runs
                        if len(series := run.training_reward if metric == ALL_GROUPS else run.series(metric))]
                for label, runs in table.rows.items()}  # fmt: skip
        if any(series.any() for members in rows.values() for series in members):
            panels.append(Panel(title, rows))
    return panels


def looks_of(labels: list[str]) -> dict[str, Look]:
    """Return each label's look: that of its method, which does not depend on the other labels.

    Labels of one method with different settings share its colour and get different dashes. More labels of one method,
    and labels without a method, get a scale of colours, by order.
    """
    groups: dict[str, list[str]] = {}
    for label in sorted(set(labels), key=lambda label: (label != base_method(label), order_of(label))):
        groups.setdefault(base_method(label) if base_method(label) in LOOKS else "", []).append(label)
    looks = {label: LOOKS[label] for label in labels if label in LOOKS}
    for base, members in groups.items():
        first = LOOKS.get(base, Look("", "-"))
        others = [label for label in members if label != base]
        if base and len(members) <= len(DASHES):
            dashes: list[Dash] = [first.dash, *(dash for dash in DASHES if dash != first.dash)]
            looks |= {label: Look(first.colour, dash) for label, dash in zip(members, dashes, strict=False)}
        else:
            scale = [to_hex(COLOURS(number / max(len(others) - 1, 1))) for number in range(len(others))]
            looks |= {label: Look(colour, first.dash) for label, colour in zip(others, scale, strict=True)}
    return looks


def draw(axes: Axes, panel: Panel, looks: dict[str, Look]) -> None:
    """Draw one panel: one line per run, or a row's mean with a band for several runs (`band`)."""
    axes.set_title(middle_out(printable(panel.title), TITLE), loc="left")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6, min_n_ticks=1))
    everything = [series for members in panel.rows.values() for series in members]
    smoothed = not panel.is_validation and any(len(series) >= SMOOTHED for series in everything)
    remark = " (strong lines: running mean)" if smoothed else " (bars: 95 % intervals)" if panel.intervals else ""
    axes.set_xlabel(f"step{remark}")
    for label, members in panel.rows.items():
        look = looks[label]
        lines = [smooth(series) for series in members] if smoothed else members
        if (seeds := band(lines)) is not None:
            low, high = seeds["mean"] - seeds["error"], seeds["mean"] + seeds["error"]
            axes.fill_between(seeds.index, low, high, color=look.colour, alpha=0.15, linewidth=0)
            lines = [seeds["mean"]]
        for series in members if smoothed and seeds is None else ():
            axes.plot(series.index, series, color=look.colour, linewidth=0.8, alpha=0.3)
        if label in panel.intervals:
            axes.vlines(members[0].index[-1], *panel.intervals[label], color=look.colour, alpha=0.5)
        for series in lines:
            marker = "o" if panel.is_validation or len(series) == 1 else None  # a line of one step is not visible
            style = {"color": look.colour, "linestyle": look.dash, "marker": marker, "markersize": 4, "clip_on": False}
            axes.plot(series.index, series, **style)
    values = pd.concat(everything) if everything else pd.Series([0.0])
    if panel.title == KL:
        logarithmic(axes, values)
    elif values.min() >= 0 > axes.get_ylim()[0]:  # no axis below zero for what is never negative
        axes.set_ylim(bottom=0)
    if panel.is_validation and values.max() <= 1 < axes.get_ylim()[1]:
        axes.set_ylim(top=1)


def logarithmic(axes: Axes, values: Any) -> None:
    """Make the axis logarithmic if the values span two orders of magnitude, and linear around 0, which stays on it."""
    sizes = values[values != 0].abs()
    low, high = max(sizes.min(), 1e-4 * sizes.max()), sizes.max()
    if high < 100 * low:
        return
    powers = range(math.ceil(math.log10(low)), math.floor(math.log10(high)) + 1)
    ticks = [10.0**power for power in powers[:: math.ceil(len(powers) / 4)]]
    ticks = sorted([*(-tick for tick in ticks if values.min() <= -low), 0.0, *ticks])
    axes.set_yscale("symlog", linthresh=low)
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_yticks([], minor=True)
    axes.set_ylim(bottom=min(0.0, 2 * values.min()), top=2 * high)


def band(members: Sequence[pd.Series]) -> pd.DataFrame | None:
    """Return mean and standard error ("mean", "error") at the steps that all runs have.

    None for one run, or if runs differ in their last step. A resumed run has one more validation than the others.
    """
    if len(members) < 2 or len({series.index[-1] for series in members}) > 1:
        return None
    values = pd.concat(members, axis=1, join="inner")
    return pd.DataFrame({"mean": values.mean(axis=1), "error": values.sem(axis=1)})


def smooth(series: pd.Series) -> pd.Series:
    """Return a centred running mean with a shorter window at both ends; of fewer than SMOOTHED steps the series."""
    if len(series) < SMOOTHED:
        return series
    reach = max(1, math.ceil(len(series) * SMOOTHING / 2))
    return cast(pd.Series, series.rolling(2 * reach + 1, center=True, min_periods=1).mean())


def figure(panels: Sequence[Panel], looks: dict[str, Look]) -> Figure:
    """Return a figure with all panels in rows of three and one legend below, in as many columns as the names allow."""
    columns = min(3, len(panels))
    rows = math.ceil(len(panels) / columns)
    names = [middle_out(printable(label), LEGEND * columns) for label in looks]
    legend_columns = max(1, LEGEND * columns // max(map(len, names)))
    height = 2.7 * rows + 0.3 * math.ceil(len(names) / min(legend_columns, columns)) + 0.2
    fig = Figure(figsize=(3.6 * columns, height), layout="constrained")
    all_axes = fig.subplots(rows, columns, squeeze=False).flatten()
    for axes, panel in zip(all_axes, panels, strict=False):
        draw(axes, panel, looks)
    for axes in all_axes[len(panels) :]:
        axes.set_axis_off()
    lines = [Line2D([], [], color=look.colour, linestyle=look.dash) for look in looks.values()]
    ncols = min(legend_columns, columns)
    fig.legend(lines, names, loc="outside lower center", ncols=ncols, frameon=False, handlelength=3)
    return fig


def middle_out(text: str, width: int) -> str:
    """Return the text, without its middle if it is longer: names differ at their ends."""
    return text if len(text) <= width else f"{text[: width // 2]}…{text[1 - width // 2 :]}"


def plot(table: Table, out: Path, pass_at: int | None = None) -> list[Path]:
    """Draw the runs of a table into panels.png and panels.svg of `out`, and return the paths. pass_at: `make_panels`.

    The files have no date, so that they are reproducible. Overwrites only files of `rpg plot`.

    Raises ResultsError: none of the runs logged a metric that the panels show, or a file is another program's.
    """
    panels = make_panels(table, pass_at)
    if not panels:
        raise ResultsError("; ".join(["none of the runs logged a metric that the panels show", *table.notes]))
    files = {out / "panels.png": {"Software": CREATOR}, out / "panels.svg": {"Date": None, "Creator": CREATOR}}
    for file in files:
        if file.exists() and CREATOR.encode() not in file.read_bytes():
            raise ResultsError(f"{file}: not written by `rpg plot`; remove it, or give another --out")
    out.mkdir(parents=True, exist_ok=True)
    with matplotlib.rc_context(STYLE):  # also to save: matplotlib makes some ticks only then
        picture = figure(panels, looks_of(list(table.rows)))
        for file, metadata in files.items():
            picture.savefig(content := io.BytesIO(), format=file.suffix[1:], dpi=110, metadata=metadata)
            write_whole(file, content.getvalue())
    return list(files)
