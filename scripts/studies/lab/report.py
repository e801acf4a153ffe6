"""Tables and pictures of docs/results/lab.parquet."""

import math
from pathlib import Path

import numpy as np
import pandas as pd

from rpg.results.figures import looks_of
from scripts.make_recipe import names
from scripts.studies.common import RESULTS, markdown, picture
from scripts.studies.lab.rates import ARMS
from scripts.studies.lab.scope import CUT, RESPONSE, REWARD, TOKEN

OTHERS = (RESPONSE, CUT, REWARD)


def load(question: str) -> pd.DataFrame:
    """Return the table of a question: identity, gradient, rates or scope."""
    table = pd.read_parquet(RESULTS / "lab.parquet", filters=[("question", "==", question)])
    return table.drop(columns="question").dropna(axis="columns", how="all").reset_index(drop=True)


def tables() -> list[str]:
    """Return Markdown: one table for each question; ± is the standard error over seeds."""
    return [_identity(), _gradient(), _rates(), _scope_by_end()]


def _identity() -> str:
    rows = [[f"{row[key]:.2g}" for key in ("spread", "kinds", "rows", "dapo")]
            for _, row in load("identity").iterrows()]  # fmt: skip
    head = ["std of log w", "differentiable and REINFORCE", "two of the eight rows", "URKL and DAPO"]
    return markdown(head, rows)


def _gradient() -> str:
    lines = load("gradient").set_index(["age", "label"]).loc[16]
    rows = [[str(label), *(f"{row[key]:.2f} ± {row[f'{key}_se']:.2f}" for key in ("bias", "cosine"))]
            for label, row in lines.iterrows()]  # fmt: skip
    return markdown(["pi_old, samples 16 steps old", "bias", "cosine"], rows)


def best_rates() -> pd.DataFrame:
    """Return a line a length and loss: the best rate, and there and at twice it, on fresh policies, the reward.

    `less` is the reward less RPG-REINFORCE's.
    """
    lines = []
    for length, of_length in load("rates").groupby("length"):
        for name in ARMS:
            own = of_length[of_length.label == name].reset_index(drop=True)
            once, twice = own[own.fresh].itertuples()
            lines.append({
                "length": length, "label": names()[name].label, "steps": once.steps, "best": once.lr,
                "reward": once.reward, "error": once.reward_se, "lost": twice.reward - once.reward,
                "lost_error": math.hypot(once.reward_se, twice.reward_se),
            })  # fmt: skip
    table = pd.DataFrame(lines)
    first = table.groupby("length")[["reward", "error"]].transform("first")
    return table.assign(less=table.reward - first.reward, less_error=np.hypot(table.error, first.error))


def _rates() -> str:
    """One line a loss: E[R] and its difference to RPG-REINFORCE's by length; then the change at twice the best rate."""
    table = best_rates()
    rows, twice = [], []
    for label, lines in table.groupby("label", sort=False):
        cells = [f"{label}, {lines.steps.iloc[0]:g}"]
        for row in lines.itertuples():
            cells += [f"{row.reward:.3f}", "" if row.less == 0 else f"{row.less:+.3f} ± {row.less_error:.3f}"]
        rows.append(cells)
        twice.append([cells[0], *(f"{row.lost:+.3f} ± {row.lost_error:.3f}" for row in lines.itertuples())])
    lengths = [f"{length:g}" for length in table.length.unique()]
    head = ["loss, steps a batch"]
    head += [text for length in lengths for text in (f"E[R], {length} tokens", "less RPG-REINFORCE's")]
    changes = markdown(["at twice the rate, less", *(f"{length} tokens" for length in lengths)], twice)
    return f"{markdown(head, rows)}\n\n{changes}"


def by_end() -> pd.DataFrame:
    """Return the cells of `scope` with `end`, how J per token ended: above its start, below, or over 0.5 below."""
    table = load("scope")
    names = ["over 0.5 below its start", "up to 0.5 below", "above its start"]
    return table.assign(end=pd.cut(table[TOKEN] - table.start, [-float("inf"), -0.5, 0, float("inf")], labels=names))


def _scope_by_end() -> str:
    rows = []
    for end, cells in sorted(by_end().groupby("end", observed=True), key=lambda part: -part[1][TOKEN].mean()):
        counts = []
        for form in OTHERS:
            less, error = cells[f"{form} less token"], cells[f"{form} less token_se"]
            counts.append(f"{(less > 2 * error).sum()}, {(less < -2 * error).sum()}")
        rows.append([str(end), str(len(cells)), *counts])
    return markdown(["J per token ends", "cells", *(f"{form}: better, worse" for form in OTHERS)], rows)


def draw(out: Path) -> None:
    """Draw rates.png: E[R] by learning rate."""
    rates, labels = load("rates"), {name: names()[name].label for name in ARMS}
    looks = looks_of(list(labels.values()))
    with picture(out / "rates.png", 1, 2, figsize=(12.5, 4.2), sharey=True) as axes:
        for axis, (length, of_length) in zip(axes, rates[~rates.fresh].groupby("length"), strict=True):
            for name, label in labels.items():
                own, look = of_length[of_length.label == name], looks[label]
                style = {"marker": "o", "markersize": 4, "color": look.colour, "linestyle": look.dash}
                axis.errorbar(own.lr, own.reward, own.reward_se, label=label, **style)
            axis.set_title(f"E[R] after 4 batches, {length:g} tokens", loc="left")
            axis.set_xlabel("learning rate")
            axis.set_xscale("log")
        axes[0].set_ylim(0, 1.25)
        axes[0].set_yticks([0, 0.25, 0.5, 0.75, 1])
        axes[1].legend(fontsize=9, frameon=False, ncols=2, loc="upper right")
