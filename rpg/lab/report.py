"""The laboratory's results: a CSV of every number, a picture a sweep, one page."""

import csv
import html
import io
import math
from collections.abc import Sequence
from importlib import resources
from string import Template
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rpg.lab.run import Results, Row
from rpg.lab.sweeps import Grid, Sweep, fields
from rpg.lab.train import Measured, Scale
from rpg.results.figures import STYLE, svg

CELL, LINE = 0.78, 0.4  # width and height of a cell, in inches
LETTER = 0.083  # width of a letter of a row's label


class Shown(NamedTuple):
    """How a measurement is drawn: its scale from light to dark (None: from the numbers), and its decimals."""

    low: float | None
    high: float | None
    decimals: int


SHOWN = {
    "reward": Shown(0.0, 1.0, 3),
    "reward_mean": Shown(0.0, 0.8, 3),
    "gap": Shown(0.0, 0.5, 3),
    "silenced": Shown(0.0, 1.0, 3),
    "kl": Shown(0.0, 10.0, 2),
}


def table(found: Sequence[Sweep], results: Results) -> str:
    """CSV: a line a setting, with the sweeps it is part of, mean and standard error of each measurement."""
    sweeps_of: dict = {setting: [] for setting in results}
    for sweep in found:
        for setting in dict.fromkeys(setting for grid in sweep.grids for setting in grid.settings()):
            sweeps_of[setting].append(sweep.name)
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    first = next(iter(results))
    measured = [name for field in Measured._fields for name in (field, f"{field}_se")]
    writer.writerow(["sweeps", *fields(first), *measured])
    for setting, row in results.items():
        numbers = [f"{number:.6g}" for field in Measured._fields for number in (row[field].mean, row[field].error)]
        writer.writerow(["+".join(sweeps_of[setting]), *fields(setting).values(), *numbers])
    return out.getvalue()


def figure(sweep: Sweep, results: Results) -> Figure:
    """The grids of a sweep, two beside each other; every cell has its number and the standard error."""
    with matplotlib.rc_context({**STYLE, "axes.grid": False, "font.size": 9, "axes.titlesize": 10}):
        lines = [sweep.grids[i : i + 2] for i in range(0, len(sweep.grids), 2)]
        heights = [LINE * max(len(grid.rows) for grid in line) + 0.85 for line in lines]
        widths = [max(map(_width, column)) for column in (sweep.grids[0::2], sweep.grids[1::2]) if column]
        fig = Figure(figsize=(sum(widths) + 0.3, sum(heights) + 0.1), layout="constrained")
        all_axes = fig.subplots(len(lines), len(widths), squeeze=False, height_ratios=heights, width_ratios=widths)
        for axes, line in zip(all_axes, lines, strict=True):
            for each, grid in zip(axes, line, strict=False):
                _draw(each, grid, results)
            for each in axes[len(line) :]:
                each.set_axis_off()
        return fig


def _width(grid: Grid) -> float:
    return CELL * len(grid.columns) + LETTER * max(map(len, grid.rows)) + 0.5


def _draw(axes: Axes, grid: Grid, results: Results) -> None:
    cells = [[results[grid.setting(row, column)][grid.shown] for column in grid.columns] for row in grid.rows]
    means = np.array([[cell.mean for cell in line] for line in cells])
    low, high, decimals = SHOWN[grid.shown]
    image = axes.imshow(means, cmap="Blues", vmin=low, vmax=high, aspect="auto")
    for y, line in enumerate(cells):
        for x, cell in enumerate(line):
            dark = image.norm(cell.mean) > 0.6
            text = f"{cell.mean:.{decimals}f}\n± {cell.error:.{decimals}f}"
            axes.text(x, y, text, ha="center", va="center", fontsize=7.5, color="white" if dark else "black")
    axes.set_title(grid.title, loc="left")
    axes.set_xticks(range(len(grid.columns)), [_broken(name) for name in grid.columns])
    axes.set_yticks(range(len(grid.rows)), list(grid.rows))
    axes.tick_params(length=0)
    axes.set_xlabel(grid.column_name)
    axes.set_ylabel(grid.row_name)
    axes.spines[:].set_visible(False)


def _broken(name: str) -> str:
    """A long label of a column in lines of its parts."""
    return name.replace(", ", ",\n")


def page(found: Sequence[Sweep], results: Results, scale: Scale, seconds: float) -> str:
    """One self-contained HTML page: what was done, each sweep's picture, what each row means."""
    sections = []
    for sweep in found:
        picture = svg(figure(sweep, results)).replace(
            "<svg ", f"<svg role='img' aria-label='{html.escape(sweep.title)}' ", 1
        )
        sections.append(
            f"<h2>{html.escape(sweep.title)}</h2>\n<p>{html.escape(sweep.text)}</p>\n<div class='wide'>{picture}</div>"
        )
    text = resources.files("rpg.lab").joinpath("page.html").read_text(encoding="utf-8")
    return Template(text).substitute(
        settings=len(results),
        seeds=scale.seeds,
        updates=scale.updates,
        largest=f"{largest_error(results):.3f}",
        minutes=f"{max(1, math.ceil(seconds / 60))}",
        sections="\n".join(sections),
    )


def largest_error(results: Results) -> float:
    """The largest standard error of a final expected reward."""
    return max(row["reward"].error for row in results.values())


def summary(found: Sequence[Sweep], results: Results) -> str:
    """A few lines for the terminal: best and worst cell of each grid that shows a reward."""
    lines = []
    for grid in (grid for sweep in found for grid in sweep.grids):
        cells = {(r, c): results[grid.setting(r, c)] for r in grid.rows for c in grid.columns}
        ordered = sorted(cells, key=lambda cell: cells[cell][grid.shown].mean)
        ends = [f"{_said(cells[cell], grid)} ({', '.join(filter(None, cell))})" for cell in (ordered[0], ordered[-1])]
        lines.append(f"{grid.title}: {' to '.join(ends)}")
    return "\n".join(lines)


def _said(row: Row, grid: Grid) -> str:
    return f"{row[grid.shown].mean:.3f} ± {row[grid.shown].error:.3f}"
