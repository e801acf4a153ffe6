"""The laboratory's results: one CSV and one picture per question."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rpg.files.atomic import write_whole
from rpg.names import DIVERGENCES
from rpg.results.figures import OWN_LABELS_STYLE, save
from scripts.studies.lab.bias import ROWS
from scripts.studies.lab.sweeps import Grid, unique_settings

CELL, LINE = 0.62, 0.4  # width and height of a cell in inches
LETTER = 0.083  # width of a letter of a row's label in inches
LINES_STYLE = {**OWN_LABELS_STYLE, "font.size": 9, "axes.titlesize": 10}
# per measurement: ends of its colour scale from light to dark, and decimals
SHOWN = {
    "reward": (0.6, 1.0, 3),
    "reward_mean": (0.3, 0.95, 3),
    "gap": (0.0, 0.5, 3),
    "gap_forward": (0.0, 0.5, 3),
    "entropy": (0.0, 8.0, 2),
    "pass_at_8": (0.6, 1.0, 3),
    "silenced": (0.0, 1.0, 3),
    "kl": (0.0, 10.0, 2),
    "bias": (0.0, 1.5, 2),
    "cosine": (-0.2, 1.0, 2),
    "noise": (0.0, 100.0, 0),
}


class Map(NamedTuple):
    """One heat map: labels of rows and columns, mean and error per cell."""

    title: str
    row_name: str
    rows: Sequence[str]
    column_name: str
    columns: Sequence[str]
    cells: pd.DataFrame  # row by row
    shown: str


def write(directory: Path, name: str, table: pd.DataFrame, figure: Figure) -> None:
    """Write the CSV and the PNG of a question atomically."""
    write_whole(directory / f"{name}.csv", table.to_csv(index=False, float_format="%.6g"))
    write_whole(directory / f"{name}.png", save(figure, "png", style=OWN_LABELS_STYLE))


def sweep_table(grids: Sequence[Grid], results: pd.DataFrame) -> pd.DataFrame:
    """Return one line per setting; `results` are those of measure_all."""
    settings = unique_settings(grids)
    fields = pd.DataFrame([dataclasses.asdict(setting) for setting in settings])
    return pd.concat([fields, results.loc[settings].reset_index(drop=True)], axis=1)


def sweep_figure(grids: Sequence[Grid], results: pd.DataFrame) -> Figure:
    """Draw one heat map per grid."""
    return heat_maps(
        [
            Map(grid.title.format(**grid.base), grid.row_name, list(grid.rows), grid.column_name, list(grid.columns),
                results.loc[grid.settings()], grid.shown)
            for grid in grids
        ]
    )  # fmt: skip


def gradient_figure(table: pd.DataFrame) -> Figure:
    """Draw bias, cosine and noise of bias_table."""
    columns = [str(age) for age in sorted(set(table["age"]))]
    titles = {
        "bias": "bias: |error| / |grad J|",
        "cosine": "cosine with grad J",
        "noise": "noise of one response / |grad J|",
    }
    age = "age of the samples (optimizer steps)"
    return heat_maps([Map(title, "", list(ROWS), age, columns, table, field) for field, title in titles.items()])


def noise_figure(table: pd.DataFrame) -> Figure:
    """Draw the noise of noise_table, one panel per age of the samples."""
    ages = sorted(set(table["age"]))
    with matplotlib.rc_context(LINES_STYLE):
        fig = Figure(figsize=(3.0 * len(ages) + 1, 3.2), layout="constrained")
        for axes, age in zip(fig.subplots(1, len(ages), sharey=True, squeeze=False)[0], ages, strict=True):
            of_age = table.loc[table["age"] == age]
            _lines(axes, of_age, {f"RPG-REINFORCE {d.upper()}": d.upper() for d in DIVERGENCES}, "beta", "noise")
            axes.set(xscale="log", yscale="log", xlabel="beta", title=f"samples {age} steps old")
        fig.axes[0].set_ylabel("noise of one response / |grad J|")
        fig.axes[-1].legend(frameon=False)
    return fig


def fixed_point_figure(table: pd.DataFrame) -> Figure:
    """Draw reward against beta and the two frontiers, at the fixed points of fixed_point_table."""
    forms = {
        "RKL": "reverse: RKL, URKL",
        "FKL": "forward: FKL, UFKL, unclamped k3",
        "verl's k3": "verl's k3 (value clamped at 10)",
        "RKL of responses": "reverse, of responses",
    }
    with matplotlib.rc_context(LINES_STYLE):
        fig = Figure(figsize=(10, 3.4), layout="constrained")
        left, middle, right = fig.subplots(1, 3)
        for axes, x in ((left, "beta"), (middle, "entropy"), (right, "pass_at_8")):
            _lines(axes, table.rename(columns={"form": "label"}), forms, x, "reward")
        left.set(xscale="log", xlabel="beta", ylabel="final reward", title="reward by beta")
        middle.set(xlabel="entropy of a response (nats)", title="reward against entropy")
        right.set(xlabel="pass@8", title="reward against pass@8")
        middle.legend(frameon=False, loc="lower left", fontsize=8)
    return fig


def _lines(axes: Axes, table: pd.DataFrame, labels: Mapping[str, str], x: str, y: str) -> None:
    """Draw one line per label with the errors of y."""
    for (name, label), marker in zip(labels.items(), "osDv", strict=False):
        part = table[table["label"] == name]
        axes.errorbar(part[x], part[y], part[f"{y}_se"], marker=marker, markersize=4, capsize=2, label=label)


def heat_maps(maps: Sequence[Map]) -> Figure:
    """Draw heat maps in pairs, the row labels once if both have the same, with number and error per cell."""
    with matplotlib.rc_context({**LINES_STYLE, "axes.grid": False}):
        lines = [maps[i : i + 2] for i in range(0, len(maps), 2)]
        heights = [LINE * len(line[0].rows) + 0.85 for line in lines]
        widths = [
            max(max(CELL * len(heat_map.columns), LETTER * len(heat_map.title)) for heat_map in column)
            for column in (maps[0::2], maps[1::2])
        ]
        labels = LETTER * max(len(row) for heat_map in maps for row in heat_map.rows) + 0.5
        labelled = [number % 2 == 0 or heat_map.rows != maps[number - 1].rows for number, heat_map in enumerate(maps)]
        if any(labelled[1::2]):
            widths[1] += labels
        fig = Figure(figsize=(sum(widths) + labels, sum(heights) + 0.1), layout="constrained")
        all_axes = fig.subplots(len(lines), 2, squeeze=False, height_ratios=heights, width_ratios=widths)
        for number, heat_map in enumerate(maps):
            _draw(all_axes.flat[number], heat_map, labelled[number])
        for axes in all_axes.flat[len(maps) :]:
            axes.set_axis_off()
        return fig


def _draw(axes: Axes, heat_map: Map, labelled: bool) -> None:
    low, high, decimals = SHOWN[heat_map.shown]
    means, errors = (
        heat_map.cells[name].to_numpy().reshape(len(heat_map.rows), -1)
        for name in (heat_map.shown, f"{heat_map.shown}_se")
    )
    axes.imshow(means, cmap="Blues", vmin=low, vmax=high, aspect="auto")
    for (y, x), mean in np.ndenumerate(means):
        color = "white" if mean > low + 0.6 * (high - low) else "black"
        text = f"{mean:.{decimals}f}\n± {errors[y, x]:.{decimals}f}"
        axes.text(x, y, text, ha="center", va="center", fontsize=7.5, color=color)
    axes.set_title(heat_map.title, loc="left")
    axes.set_xticks(range(len(heat_map.columns)), [name.replace(", ", ",\n") for name in heat_map.columns])
    axes.set_yticks(range(len(heat_map.rows)), heat_map.rows if labelled else [""] * len(heat_map.rows))
    axes.tick_params(length=0)
    axes.set_xlabel(heat_map.column_name)
    axes.set_ylabel(heat_map.row_name if labelled else "")
    axes.spines[:].set_visible(False)
