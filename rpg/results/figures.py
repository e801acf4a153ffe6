"""The paper's panels (accuracy per benchmark, critic score, entropy, response length) and off-policy panels."""

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
from rpg.registry.labels import LOOKS, base_method, order_of
from rpg.registry.methods import Dash, Look
from rpg.results.messages import ResultsError, shortened
from rpg.results.samples import pass_by_step
from rpg.results.table import Table

CREATOR = "rpg plot"  # metadata of each file
# panels after the benchmarks': title, metric of verl's log; omitted if no run has the metric or it is always 0, like
# the staleness of synchronous runs
PANELS = {
    "critic score (training reward)": ALL_GROUPS,  # or that of the batch (measures.py)
    "entropy": "actor/entropy",
    "response length (tokens)": "response_length/mean",
    "clipped tokens (share)": "actor/pg_clipfrac",
    "off-policy: effective sample size": "training/off_policy/ess",
    "off-policy: KL(sampler, trained)": "training/off_policy/kl",
    "off-policy: staleness (weight versions)": "training/off_policy/trajectory_staleness/mean",
    "off-policy: clipped above (share)": "actor/rpg_clipfrac_high",
    "off-policy: clipped below (share)": "actor/rpg_clipfrac_low",
    "off-policy: clipped at c (share)": "actor/rpg_clipfrac_c",
}
DRAWN = frozenset([*PANELS.values(), *REWARDS])
SMOOTHING = 0.1  # share of the steps in a running mean; raw values stay visible behind it
MOST_NAMES = 8  # rows above which the legend is in columns
SMOOTHED = 20  # steps from which a line is smoothed
LETTERS, TITLE = 28, 34  # characters of a label that fit below one panel, of a benchmark's title above it
STYLE: dict[Any, Any] = {  # matplotlib's type lists every key
    "font.size": 11,
    "axes.titlesize": 12,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.color": "#e4e4e4",
    "svg.fonttype": "none",
    "text.parse_math": False,  # no mathtext for a dollar in a name
    "svg.hashsalt": "rpg",
    "lines.linewidth": 1.8,
}
DASHES: tuple[Dash, ...] = get_args(Dash)
SCALE = ("#440154", "#3b528b", "#21918c", "#5ec962", "#d8b919")  # viridis, without its lightest yellow
COLOURS = LinearSegmentedColormap.from_list("", SCALE)
OTHER_COLOURS = ("#17becf", "#bcbd22", "#e377c2", "#393b79", "#637939", "#843c39")


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
    panels = []
    accuracies = {label: [run.accuracies() for run in runs] for label, runs in table.rows.items()}
    for name in table.benchmarks:
        rows = {label: [curves[name] for curves in runs if name in curves] for label, runs in accuracies.items()}
        cells = table.cells.loc[(table.cells["benchmark"] == name) & table.cells["last_low"].notna()]
        intervals = {cell.method: (cell.last_low, cell.last_high) for cell in cells.itertuples()}
        panels.append(Panel(f"{name} accuracy", rows, True, intervals if len(rows) <= MOST_NAMES else {}))
    if pass_at is not None:
        panels += _pass_panels(table, pass_at)
    for title, metric in PANELS.items():
        logged = {
            label: [run.training_reward if metric == ALL_GROUPS else run.series(metric) for run in runs]
            for label, runs in table.rows.items()
        }
        rows = {label: [series for series in members if len(series)] for label, members in logged.items()}
        if any(series.any() for members in rows.values() for series in members):
            panels.append(Panel(title, rows))
    return panels


def _pass_panels(table: Table, k: int) -> list[Panel]:
    rows: dict[str, dict[str, list[pd.Series]]] = {name: {} for name in table.benchmarks}
    for label, runs in table.rows.items():
        for run in runs:
            curves, notes = pass_by_step(run, k)
            table.notes += [note.about(run.name) for note in dict.fromkeys(notes)]
            for name, points in curves.items():
                rows[name].setdefault(label, []).append(points)
    return [Panel(f"{name} pass@{k}", lines, is_validation=True) for name, lines in rows.items() if lines]


def looks_of(labels: list[str]) -> dict[str, Look]:
    """Return each label's look: that of its method, or solid lines of other colours for labels without a method.

    Labels of one method with different settings share its colour and get different dashes. More labels of one method
    get a scale of colours, by order.
    """
    groups: dict[str, list[str]] = {}
    for label in sorted(set(labels), key=lambda label: (label != base_method(label), order_of(label))):
        groups.setdefault(base_method(label) if base_method(label) in LOOKS else "", []).append(label)
    looks: dict[str, Look] = {}
    for base, members in groups.items():
        scaled = [label for label in members if label != base]
        if not base and len(scaled) <= len(OTHER_COLOURS):
            looks |= {label: Look(colour, "-") for label, colour in zip(scaled, OTHER_COLOURS, strict=False)}
        elif base and len(members) <= len(DASHES):
            method = LOOKS[base]
            dashes: list[Dash] = [method.dash, *(dash for dash in DASHES if dash != method.dash)]
            looks |= {label: Look(method.colour, dash) for label, dash in zip(members, dashes, strict=False)}
        else:
            looks |= {label: LOOKS[base] for label in members if label == base}
            dash, last = LOOKS[base].dash if base else "-", len(scaled) - 1
            looks |= {label: Look(to_hex(COLOURS(number / last)), dash) for number, label in enumerate(scaled)}
    return looks


def draw(axes: Axes, panel: Panel, looks: dict[str, Look]) -> None:
    """Draw one panel: one line per run, or a row's mean with a band for several runs (`band`)."""
    title = printable(panel.title)
    axes.set_title(shortened([title], TITLE)[title] if panel.is_validation else title, loc="left")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6, min_n_ticks=1))
    smoothed = not panel.is_validation and any(len(series) >= SMOOTHED for own in panel.rows.values() for series in own)
    remark = " (strong lines: running mean)" if smoothed else " (bars: 95 % intervals)" if panel.intervals else ""
    axes.set_xlabel(f"step{remark}")
    for label, members in panel.rows.items():
        look = looks[label]
        lines = members if panel.is_validation else [smooth(series) for series in members]
        if (seeds := band(lines)) is not None:
            low, high = seeds["mean"] - seeds["error"], seeds["mean"] + seeds["error"]
            axes.fill_between(seeds.index, low, high, color=look.colour, alpha=0.15, linewidth=0)
            lines = [seeds["mean"]]
        elif smoothed:
            for series in members:
                axes.plot(series.index, series, color=look.colour, linewidth=0.8, alpha=0.3)
        if label in panel.intervals:
            last = members[0].index[-1]
            axes.vlines(last, *panel.intervals[label], color=look.colour, alpha=0.5)
        for series in lines:
            marker = "o" if panel.is_validation or len(series) == 1 else None  # a line of one step is not visible
            style = {"color": look.colour, "linestyle": look.dash, "marker": marker, "markersize": 4, "clip_on": False}
            axes.plot(series.index, series, **style)
    low = min((series.min() for members in panel.rows.values() for series in members), default=0.0)
    high = max((series.max() for members in panel.rows.values() for series in members), default=0.0)
    if low >= 0 > axes.get_ylim()[0]:  # no axis below zero for what is never negative, none above 1 for accuracies
        axes.set_ylim(bottom=0)
    if panel.is_validation and high <= 1 < axes.get_ylim()[1]:
        axes.set_ylim(top=1)


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
    """Return a figure with all panels in rows of three and one legend below."""
    with matplotlib.rc_context(STYLE):
        columns = min(3, len(panels))
        rows = math.ceil(len(panels) / columns)
        labels = list(looks)
        legend_columns = 1 if len(labels) <= MOST_NAMES and max(map(len, labels)) > LETTERS else columns
        width = LETTERS if legend_columns > 1 else 30 * columns  # of a line below the panels
        short = shortened(map(printable, labels), width)
        height = 2.7 * rows + 0.3 * math.ceil(len(labels) / legend_columns) + 0.2
        fig = Figure(figsize=(3.6 * columns, height), layout="constrained")
        all_axes = fig.subplots(rows, columns, squeeze=False).flatten()
        for axes, panel in zip(all_axes, panels, strict=False):
            draw(axes, panel, looks)
        for axes in all_axes[len(panels) :]:
            axes.set_axis_off()
        lines = [Line2D([], [], color=look.colour, linestyle=look.dash) for look in looks.values()]
        names = [short[printable(label)] for label in labels]
        fig.legend(lines, names, loc="outside lower center", ncols=legend_columns, frameon=False, handlelength=3)
        return fig


def save(fig: Figure, kind: str) -> bytes:
    """Return the bytes of a png or svg file without a date, so that they are reproducible."""
    metadata = {"Software": CREATOR} if kind == "png" else {"Date": None, "Creator": CREATOR}
    out = io.BytesIO()
    with matplotlib.rc_context(STYLE):  # matplotlib makes some ticks only now
        fig.savefig(out, format=kind, dpi=110, metadata=metadata)
    return out.getvalue()


def plot(table: Table, out: Path, pass_at: int | None = None) -> list[Path]:
    """Draw the runs of a table into panels.png and panels.svg of `out`; return the paths.

    pass_at: as for `make_panels`. Overwrites only files of `rpg plot`.

    Raises:
        ResultsError: none of the runs logged a metric that the panels show, or a file is another program's.
    """
    panels = make_panels(table, pass_at)
    if not panels:
        notes = (note.text for note in table.notes)
        raise ResultsError("; ".join(["none of the runs logged a metric that the panels show", *notes]))
    files = [out / "panels.png", out / "panels.svg"]
    for file in files:
        if file.exists() and CREATOR.encode() not in file.read_bytes():
            raise ResultsError(f"{file}: not written by `rpg plot`; remove it, or give another --out")
    picture = figure(panels, looks_of(list(table.rows)))
    contents = [save(picture, file.suffix[1:]) for file in files]
    out.mkdir(parents=True, exist_ok=True)
    for file, content in zip(files, contents, strict=True):
        write_whole(file, content)
    return files
