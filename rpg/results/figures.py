"""The paper's panels (accuracy per benchmark, critic score, entropy, response length), KL, and off-policy panels."""

import math
import textwrap
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import matplotlib
import numpy as np
import pandas as pd

matplotlib.use("Agg")
from matplotlib.axes import Axes
from matplotlib.colors import TABLEAU_COLORS, to_hex
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator

from rpg.diagnostics import UserError
from rpg.logged import ALL_GROUPS
from rpg.registry.methods import LOOKS, Dash, Look, base_method
from rpg.results.runs import Run
from rpg.results.statistics import pass_at
from rpg.results.table import Table

KL, PANEL_OF_REWARD = "KL to the reference (nats)", "critic score (training reward)"
# panels after the benchmarks': title -> metric of verl's log; without values, or (but the reward) all 0, not drawn
PANELS = {
    KL: "actor/rpg_kl",
    PANEL_OF_REWARD: ALL_GROUPS,  # or that of the batch (Run.training_reward)
    "entropy (nats)": "actor/entropy",
    "response length (tokens)": "response_length/mean",
    "clipped tokens (share)": "actor/pg_clipfrac",
    "off-policy: effective sample size": "training/off_policy/ess",
    "KL(sampler, trained) (nats)": "training/off_policy/kl",
    "staleness (weight versions)": "training/off_policy/trajectory_staleness/mean",
}
TITLE = 34  # characters that fit above a panel
STYLE: dict[Any, Any] = {  # matplotlib's type lists every key
    "font.size": 11, "axes.titlesize": 12, "lines.linewidth": 1.8, "axes.grid": True, "grid.color": "#e4e4e4",
    "axes.spines.top": False, "axes.spines.right": False, "svg.fonttype": "none",
    "text.parse_math": False,  # no mathtext for a dollar in a name
}  # fmt: skip
DASHES: tuple[Dash, ...] = get_args(Dash)
TAKEN = {look.colour for look in LOOKS.values()}
FREE = [Look(colour, dash) for dash in DASHES for colour in map(to_hex, TABLEAU_COLORS) if colour not in TAKEN]


def make_panels(table: Table, k: int | None = None) -> dict[str, dict[str, Any]]:
    """Return panels: title -> label of the table's row -> step x run, the values of the row's runs.

    First benchmarks, in the table's order, then the logged metrics of training and off-policy training.
    k: of pass@k by step, a panel more for each benchmark; a note of the table names rows without k answers to each
    problem.
    """
    frames: dict[Any, Any] = {
        (label, number): by_title(run, k) for label, runs in table.rows.items() for number, run in enumerate(runs)
    }
    frame: Any = pd.concat(frames, names=["label", "run", "step"]) if frames else pd.DataFrame()
    kinds, panels = ["accuracy", *([f"pass@{k}"] if k else [])], {}
    for title in [*(f"{name} {kind}" for kind in kinds for name in table.benchmarks), *PANELS]:
        points = frame.get(title, pd.Series(dtype=float)).dropna()
        if points.any() or (len(points) and (title not in PANELS or title == PANEL_OF_REWARD)):
            rows = points.groupby("label", sort=False)
            panels[title] = {label: curves.droplevel("label").unstack("run").sort_index() for label, curves in rows}
    for name in table.benchmarks if k else ():
        drawn = panels.get(f"{name} pass@{k}", {})
        if lacking := [label for label in panels[f"{name} accuracy"] if label not in drawn]:
            needs = f"needs {k} answers to each problem, right or wrong (rollout.val_kwargs.n)"
            table.notes.append(f"no {name} pass@{k} of {', '.join(lacking)}: {needs}")
    return panels


def by_title(run: Run, k: int | None) -> Any:
    """Return step x title of a panel.

    verl logs best@k only for validations with rollout.val_kwargs.n above 1, and as a bootstrap below pass@k.
    """
    logged = {f"{name} accuracy": points for name, points in run.accuracies.items()}
    logged |= {title: run.series(metric) for title, metric in PANELS.items()} | {PANEL_OF_REWARD: run.training_reward}
    passed = {step: {f"{name} pass@{k}": pass_at(rows, k) for name, rows in run.samples(step).groupby("benchmark")}
              for step in run.accuracies.index if k}  # fmt: skip
    return pd.DataFrame(logged).join(pd.DataFrame.from_dict(passed, orient="index"))


def looks_of(labels: list[str]) -> dict[str, Look]:
    """Return each label's look: its method's, or its colour with another dash for further settings of the method.

    Labels without a method, and settings beyond the dashes, get colours that no method has.
    """
    looks: dict[str, Look] = {}
    for label in labels:
        usual = LOOKS.get(base_method(label))
        of_method = [usual, *(replace(usual, dash=dash) for dash in DASHES)] if usual else []
        unused = [look for look in [*of_method, *FREE] if look not in looks.values()]
        looks[label] = unused[0] if unused else FREE[len(looks) % len(FREE)]
    return looks


def draw(axes: Axes, title: str, rows: dict[str, Any], looks: dict[str, Look]) -> None:
    """Draw one panel: a line per run, or for runs that end at one step their mean, with a band of a standard error."""
    axes.set_title(textwrap.fill(title, TITLE), loc="left")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=6, min_n_ticks=1))
    is_validation = title not in PANELS
    # the last tenth of the steps: a window around a step would show a fall before it, and a plateau at the end
    window = 1 if is_validation else max(1, max(map(len, rows.values())) // 10)
    axes.set_xlabel("step" if window == 1 else f"step (mean of the last {window})")
    for label, frame in rows.items():
        look, lines = looks[label], frame.rolling(window, min_periods=1).mean().where(frame.notna())
        if len(lines.columns) > 1 and lines.iloc[-1].notna().all():
            common = lines.dropna()  # a resumed run may have one more validation than the others
            lines, error = common.mean(axis=1).to_frame(), common.sem(axis=1)
            low, high = lines[0] - error, lines[0] + error
            axes.fill_between(lines.index, low, high, color=look.colour, alpha=0.15, linewidth=0)
        for _, line in lines.items():
            line = line.dropna()
            marker = "o" if is_validation or len(line) == 1 else None  # a line of one step is not visible
            style = {"color": look.colour, "linestyle": look.dash, "marker": marker, "markersize": 4, "clip_on": False}
            axes.plot(line.index, line, **style)
    drawn = pd.concat([pd.Series(np.asarray(line.get_ydata(), float)) for line in axes.get_lines()]).abs()
    sizes = drawn[drawn > 0]
    if title == KL and sizes.max() >= 100 * sizes.min():  # linear around 0, which stays on the axis
        axes.set_yscale("symlog", linthresh=max(sizes.min(), 1e-4 * sizes.max()))
        axes.yaxis.set_major_formatter("{x:g}")


def plot(table: Table, out: Path, k: int | None = None) -> list[Path]:
    """Draw the runs of a table into panels.png and panels.svg of `out`, and return the paths. k: `make_panels`.

    Raises UserError: none of the runs logged a metric that the panels show.
    """
    panels, looks = make_panels(table, k), looks_of(list(table.rows))
    if not panels:
        raise UserError("none of the runs logged a metric that the panels show")
    columns, lines = min(3, len(panels)), math.ceil(len(panels) / 3)
    with matplotlib.rc_context(STYLE):  # also to save: matplotlib makes some ticks only then
        figure = Figure(figsize=(3.6 * columns, 2.7 * lines + 0.2), layout="constrained")
        all_axes = figure.subplots(lines, columns, squeeze=False).flatten()
        for axes, (title, rows) in zip(all_axes, panels.items(), strict=False):
            draw(axes, title, rows, looks)
        for axes in all_axes[len(panels) :]:
            axes.set_axis_off()
        keys = [Line2D([], [], color=look.colour, linestyle=look.dash) for look in looks.values()]
        names = [textwrap.fill(label, 40 * columns) for label in looks]
        figure.legend(keys, names, loc="upper center", bbox_to_anchor=(0.5, 0), frameon=False, handlelength=3)
        out.mkdir(parents=True, exist_ok=True)
        files = [out / "panels.png", out / "panels.svg"]
        for file in files:
            figure.savefig(file, dpi=110, bbox_inches="tight")  # with the legend, which is below
    return files
