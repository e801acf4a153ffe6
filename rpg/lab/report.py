"""The laboratory's results: a CSV and a picture a question, one page."""

import dataclasses
import html
from collections.abc import Mapping, Sequence
from importlib import resources
from pathlib import Path
from string import Template
from typing import NamedTuple

import matplotlib
import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from rpg.files.atomic import write_whole
from rpg.lab.bias import ROWS
from rpg.lab.sweeps import Grid, Sweep, unique_settings
from rpg.lab.task import Task
from rpg.lab.train import GROUP, GROUPS, Scale
from rpg.objectives.spec import DIVERGENCE_NAMES
from rpg.results.figures import STYLE, save, svg

CELL, LINE = 0.62, 0.4  # width and height of a cell, in inches
LETTER = 0.083  # width of a letter of a row's label
PAGE = "index.html"
TITLE = b"<title>The laboratory</title>"  # page.html has it: this command wrote the page


class Question(NamedTuple):
    """A section of the page; `name` is that of its CSV and its picture."""

    name: str
    title: str
    text: str
    table: pd.DataFrame
    figure: Figure


# of a measurement: the ends of its scale from light to dark, and its decimals
SHOWN = {
    "reward": (0.6, 1.0, 3),
    "reward_mean": (0.3, 0.95, 3),
    "gap": (0.0, 0.5, 3),
    "entropy": (0.0, 8.0, 2),
    "pass_at_8": (0.6, 1.0, 3),
    "silenced": (0.0, 1.0, 3),
    "kl": (0.0, 10.0, 2),
    "bias": (0.0, 1.5, 2),
    "cosine": (-0.2, 1.0, 2),
    "noise": (0.0, 100.0, 0),
}


class Map(NamedTuple):
    """One heat map: labels of rows and columns, mean and error in every cell."""

    title: str
    row_name: str
    rows: Sequence[str]
    column_name: str
    columns: Sequence[str]
    means: np.ndarray
    errors: np.ndarray
    shown: tuple[float, float, int]


def question(sweep: Sweep, results: pd.DataFrame) -> Question:
    """A sweep's table, one line a setting, and its heat maps; `results` are those of measure_all."""
    settings = unique_settings([sweep])
    fields = pd.DataFrame([dataclasses.asdict(setting) for setting in settings])
    table = pd.concat([fields, results.loc[settings].reset_index(drop=True)], axis=1)
    return Question(sweep.name, sweep.title, sweep.text, table, figure([_map(grid, results) for grid in sweep.grids]))


def _map(grid: Grid, results: pd.DataFrame) -> Map:
    cells = results.loc[grid.settings()]
    means, errors = (cells[name].to_numpy().reshape(len(grid.rows), -1) for name in (grid.shown, f"{grid.shown}_se"))
    labels = (grid.row_name, list(grid.rows), grid.column_name, list(grid.columns))
    return Map(grid.title, *labels, means, errors, SHOWN[grid.shown])


def gradient_question(table: pd.DataFrame) -> Question:
    """Bias, cosine and noise of bias_table."""
    columns = [str(age) for age in sorted(set(table["age"]))]
    titles = {
        "bias": "bias: |error| / |grad J|",
        "cosine": "cosine with grad J",
        "noise": "noise of one response / |grad J|",
    }
    maps = []
    for field, title in titles.items():
        means, errors = (table[name].to_numpy().reshape(len(ROWS), -1) for name in (field, f"{field}_se"))
        labels = ("", list(ROWS), "age of the samples (optimizer steps)", columns)
        maps.append(Map(title, *labels, means, errors, SHOWN[field]))
    return Question(
        "gradient",
        "The gradient itself",
        "Policies in the middle of learning, every response listed, so that neither sampling nor training adds an "
        "error: the expected gradient of a batch's first optimizer step against that of the expected reward.",
        table,
        figure(maps),
    )


def noise_question(table: pd.DataFrame) -> Question:
    """The noise of noise_table, a panel an age of the samples."""
    ages = sorted(set(table["age"]))
    with matplotlib.rc_context({**STYLE, "font.size": 9, "axes.titlesize": 10}):
        fig = Figure(figsize=(3.0 * len(ages) + 1, 3.2), layout="constrained")
        for axes, age in zip(fig.subplots(1, len(ages), sharey=True, squeeze=False)[0], ages, strict=True):
            of_age = table.loc[table["age"] == age]
            _lines(axes, of_age, {f"RPG-REINFORCE {d.upper()}": d.upper() for d in DIVERGENCE_NAMES}, "beta", "noise")
            axes.set(xscale="log", yscale="log", xlabel="beta", title=f"samples {age} steps old")
        fig.axes[0].set_ylabel("noise of one response / |grad J|")
        fig.axes[-1].legend(frameon=False)
    return Question(
        "noise",
        "Noise of the gradient estimators",
        "Without a clip; the policy that samples is pi_old and pi_ref. A differentiable loss (RPG) and the REINFORCE "
        "loss of the same divergence are one line.",
        table,
        fig,
    )


def fixed_point_question(table: pd.DataFrame) -> Question:
    """Reward against beta, and the two frontiers, at the fixed points of fixed_point_table."""
    forms = {
        "RKL": "reverse: RKL, URKL",
        "FKL": "forward: FKL, UFKL, unclamped k3",
        "verl's k3": "verl's k3 (value clamped at 10)",
    }
    with matplotlib.rc_context({**STYLE, "font.size": 9, "axes.titlesize": 10}):
        fig = Figure(figsize=(10, 3.4), layout="constrained")
        left, middle, right = fig.subplots(1, 3)
        lines = table.rename(columns={"form": "label"})
        _lines(left, lines, forms, "beta", "reward")
        _lines(middle, lines, forms, "entropy", "reward")
        _lines(right, lines, forms, "pass_at_8", "reward")
        left.set(xscale="log", xlabel="beta", ylabel="final reward", title="reward by beta")
        middle.set(xlabel="entropy of a response (nats)", title="reward against entropy")
        right.set(xlabel="pass@8", title="reward against pass@8")
        middle.legend(frameon=False, loc="lower left", fontsize=8)
    return Question(
        "fixed_point",
        "Where a fixed reference leads",
        "Trained with the exact expected gradient to rest: no noise. The reference is the uniform policy. "
        "Points from left to right are larger beta.",
        table,
        fig,
    )


def _lines(axes: Axes, table: pd.DataFrame, labels: Mapping[str, str], x: str, y: str) -> None:
    """A line for each label with the errors of y."""
    for (name, label), marker in zip(labels.items(), "osDv", strict=False):
        part = table[table["label"] == name]
        axes.errorbar(part[x], part[y], part[f"{y}_se"], marker=marker, markersize=4, capsize=2, label=label)


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
    axes.imshow(shown.means, cmap="Blues", vmin=low, vmax=high, aspect="auto")
    for (y, x), mean in np.ndenumerate(shown.means):
        color = "white" if mean > low + 0.6 * (high - low) else "black"
        text = f"{mean:.{decimals}f}\n± {shown.errors[y, x]:.{decimals}f}"
        axes.text(x, y, text, ha="center", va="center", fontsize=7.5, color=color)
    axes.set_title(shown.title, loc="left")
    axes.set_xticks(range(len(shown.columns)), [name.replace(", ", ",\n") for name in shown.columns])
    axes.set_yticks(range(len(shown.rows)), shown.rows if labelled else [""] * len(shown.rows))
    axes.tick_params(length=0)
    axes.set_xlabel(shown.column_name)
    axes.set_ylabel(shown.row_name if labelled else "")
    axes.spines[:].set_visible(False)


def write(directory: Path, questions: Sequence[Question], scale: Scale) -> None:
    """A CSV and a PNG a question, and the page; each file is whole or absent."""
    for each in questions:
        write_whole(directory / f"{each.name}.csv", each.table.to_csv(index=False, float_format="%.6g"))
        write_whole(directory / f"{each.name}.png", save(each.figure, "png"))
    write_whole(directory / PAGE, page(questions, scale))


def page(questions: Sequence[Question], scale: Scale) -> str:
    """One self-contained HTML page: what was done, and each question with its pictures."""
    sections = []
    for each in questions:
        title = html.escape(each.title)
        picture = svg(each.figure).replace("<svg ", f"<svg role='img' aria-label='{title}' ", 1)
        sections.append(f"<h2>{title}</h2>\n<p>{html.escape(each.text)}</p>\n<div class='wide'>{picture}</div>")
    prompts, vocabulary, positions, states = Task.make().shape
    text = resources.files("rpg.lab").joinpath("page.html").read_text(encoding="utf-8")
    return Template(text).substitute(
        prompts=prompts,
        vocabulary=vocabulary,
        positions=positions,
        states=states,
        seeds=scale.seeds,
        responses=GROUPS * GROUP,
        sections="\n".join(sections),
    )
