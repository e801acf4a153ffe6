"""The laboratory's results: a CSV of every number, a picture a sweep, one page."""

import csv
import html
import io
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import NamedTuple

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rpg.lab.bias import ROWS, Table, bias_csv
from rpg.lab.run import Results, Row, Value
from rpg.lab.sweeps import Grid, Sweep, fields
from rpg.lab.task import Task
from rpg.lab.train import GROUP, GROUPS, Measured, Scale
from rpg.results.figures import STYLE, svg

CELL, LINE = 0.62, 0.4  # width and height of a cell, in inches
LETTER = 0.083  # width of a letter of a row's label


BIAS_TITLE = "The gradient itself"
BIAS_TEXT = (
    "Policies in the middle of learning, every response listed, so that neither sampling nor training adds an error: "
    "the expected gradient of a batch's first optimizer step against that of the expected reward of whole responses."
)


class Shown(NamedTuple):
    """How a measurement is drawn: the ends of its scale from light to dark, and its decimals."""

    low: float
    high: float
    decimals: int


SHOWN = {
    "reward": Shown(0.6, 1.0, 3),
    "reward_mean": Shown(0.3, 0.95, 3),
    "gap": Shown(0.0, 0.5, 3),
    "silenced": Shown(0.0, 1.0, 3),
    "kl": Shown(0.0, 10.0, 2),
    "bias": Shown(0.0, 1.5, 2),
    "cosine": Shown(-0.2, 1.0, 2),
    "noise": Shown(0.0, 100.0, 0),
}


def settings_csv(found: Sequence[Sweep], results: Results) -> str:
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


class Map(NamedTuple):
    """One heat map: labels of rows and columns, and a value in every cell."""

    title: str
    row_name: str
    rows: list[str]
    column_name: str
    columns: list[str]
    cells: list[list[Value]]
    shown: Shown


def maps(sweep: Sweep, results: Results) -> list[Map]:
    """The heat maps of a sweep."""
    return [
        Map(
            grid.title,
            grid.row_name,
            list(grid.rows),
            grid.column_name,
            list(grid.columns),
            [[results[grid.setting(row, column)][grid.shown] for column in grid.columns] for row in grid.rows],
            SHOWN[grid.shown],
        )
        for grid in sweep.grids
    ]


def bias_maps(table: Table) -> list[Map]:
    """The heat maps of the listed gradients."""
    ages = sorted({age for _, age in table})
    return [
        Map(
            title,
            "",
            list(ROWS),
            "age of the samples (optimizer steps)",
            [str(age) for age in ages],
            [[table[row, age][field] for age in ages] for row in ROWS],
            SHOWN[field],
        )
        for field, title in (
            ("bias", "bias: |error| / |grad J|"),
            ("cosine", "cosine with grad J"),
            ("noise", "noise of one response / |grad J|"),
        )
    ]


def figure(shown: Sequence[Map]) -> Figure:
    """Heat maps, two beside each other, labelled once where their rows are the same; a number and its error a cell."""
    with matplotlib.rc_context({**STYLE, "axes.grid": False, "font.size": 9, "axes.titlesize": 10}):
        lines = [shown[i : i + 2] for i in range(0, len(shown), 2)]
        heights = [LINE * max(len(each.rows) for each in line) + 0.85 for line in lines]
        columns = [column for column in (shown[0::2], shown[1::2]) if column]
        widths = [max(max(CELL * len(each.columns), LETTER * len(each.title)) for each in column) for column in columns]
        labels = LETTER * max(len(row) for each in shown for row in each.rows) + 0.5
        again = any(line[-1].rows != line[0].rows for line in lines)
        fig = Figure(figsize=(sum(widths) + labels * (1 + again), sum(heights) + 0.1), layout="constrained")
        all_axes = fig.subplots(len(lines), len(widths), squeeze=False, height_ratios=heights, width_ratios=widths)
        for axes, line in zip(all_axes, lines, strict=True):
            for place, each in zip(axes, line, strict=False):
                _draw(place, each, each is line[0] or each.rows != line[0].rows)
            for place in axes[len(line) :]:
                place.set_axis_off()
        return fig


def _draw(axes: Axes, shown: Map, labelled: bool) -> None:
    low, high, decimals = shown.shown
    means = np.array([[cell.mean for cell in line] for line in shown.cells])
    axes.imshow(means, cmap="Blues", vmin=low, vmax=high, aspect="auto")
    for y, line in enumerate(shown.cells):
        for x, cell in enumerate(line):
            dark = cell.mean > low + 0.6 * (high - low)
            text = f"{cell.mean:.{decimals}f}\n± {cell.error:.{decimals}f}"
            axes.text(x, y, text, ha="center", va="center", fontsize=7.5, color="white" if dark else "black")
    axes.set_title(shown.title, loc="left")
    axes.set_xticks(range(len(shown.columns)), [_broken(name) for name in shown.columns])
    axes.set_yticks(range(len(shown.rows)), shown.rows if labelled else [""] * len(shown.rows))
    axes.tick_params(length=0)
    axes.set_xlabel(shown.column_name)
    axes.set_ylabel(shown.row_name if labelled else "")
    axes.spines[:].set_visible(False)


def _broken(name: str) -> str:
    """A long label of a column in lines of its parts."""
    return name.replace(", ", ",\n")


def write(directory: Path, found: Sequence[Sweep], results: Results, table: Table, scale: Scale) -> list[Path]:
    """lab.csv, gradient.csv where there is a table, a PNG a question, and the page; returns their paths."""
    texts = {"lab.csv": settings_csv(found, results), "index.html": page(found, results, table, scale)}
    pictures = {sweep.name: figure(maps(sweep, results)) for sweep in found}
    if table:
        texts["gradient.csv"], pictures["gradient"] = bias_csv(table), figure(bias_maps(table))
    for name, text in texts.items():
        (directory / name).write_text(text, encoding="utf-8")
    for name, picture in pictures.items():
        picture.savefig(directory / f"{name}.png", dpi=110, metadata={"Software": None})
    return [directory / name for name in (*texts, *(f"{name}.png" for name in pictures))]


def page(found: Sequence[Sweep], results: Results, table: Table, scale: Scale) -> str:
    """One self-contained HTML page: what was done, and each question with its pictures."""
    questions = [(BIAS_TITLE, BIAS_TEXT, bias_maps(table))] if table else []
    questions += [(sweep.title, sweep.text, maps(sweep, results)) for sweep in found]
    sections = []
    for title, text, shown in questions:
        named = f"<svg role='img' aria-label='{html.escape(title)}' "
        picture = svg(figure(shown)).replace("<svg ", named, 1)
        sections.append(f"<h2>{html.escape(title)}</h2>\n<p>{html.escape(text)}</p>\n<div class='wide'>{picture}</div>")
    prompts, vocabulary, positions, states = Task.make().shape
    text = resources.files("rpg.lab").joinpath("page.html").read_text(encoding="utf-8")
    return Template(text).substitute(
        prompts=prompts,
        vocabulary=vocabulary,
        positions=positions,
        states=states,
        settings=len(results),
        seeds=scale.seeds,
        updates=scale.updates,
        responses=GROUPS * GROUP,
        largest=f"{largest_error(results):.3f}",
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
