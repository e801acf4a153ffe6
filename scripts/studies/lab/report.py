"""Tables and pictures of docs/results/lab.parquet."""

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from rpg.registry.labels import method_of_name
from rpg.results.figures import looks_of
from scripts.studies.common import RESULTS, markdown, picture
from scripts.studies.lab.rates import ARMS
from scripts.studies.lab.scope import CUT, RESPONSE, REWARD, TOKEN

BETAS = (0.1, 0.3)  # of the shown fixed points
OTHERS = (RESPONSE, CUT, REWARD)
SHARED = 0.5  # a reward that every loss reaches below its best rate
LOOKS = (  # colour and dash by label; the three in blue are nearly one line
    ("#d62728", "-"),
    ("#fd8d3c", "-"),
    ("#08519c", "-"),
    ("#2171b5", "--"),
    ("#6baed6", ":"),
    ("#006d2c", "-"),
    ("#74c476", "-"),
)


def load(question: str) -> pd.DataFrame:
    """Return the table of a question: identity, pi_old, gradient, noise, fixed_point, rates or scope."""
    table = pd.read_parquet(RESULTS / "lab.parquet", filters=[("question", "==", question)])
    return table.drop(columns="question").dropna(axis="columns", how="all").reset_index(drop=True)


def tables() -> list[str]:
    """Return Markdown: one table for each question; ± is the standard error over seeds."""
    return [_identity(), _pi_old(), _gradient(), _noise(), _fixed_points(), _rates(), _scopes(), _scope_by_end()]


def _identity() -> str:
    rows = [[f"{row[key]:.2g}" for key in ("spread", "kinds", "divergences", "rows", "dapo")]
            for _, row in load("identity").iterrows()]  # fmt: skip
    head = ["std of log w", "differentiable and REINFORCE", "two divergences", "two of the eight rows", "URKL and DAPO"]
    return markdown(head, rows)


def _pi_old() -> str:
    rows = []
    for _, row in load("pi_old").iterrows():
        distance = f"{row.staleness:g}, {row.kl:.3f}"
        rows.append([distance, row.label, "0" if row.error < 1e-10 else _percent(row.bias), f"{row.noise:.3f}",
                     _percent(row.clip_bias), _percent(row.silenced)])  # fmt: skip
    return markdown(["staleness, KL(mu, a)", "pi_old", "bias", "noise of one sample", "clip bias", "silenced"], rows, 2)


def _percent(share: float) -> str:
    return f"{share * 100:.1f} %"


def _pivot(table: pd.DataFrame, columns: Sequence[tuple[str, float, int]], by: str) -> list[list[str]]:
    """Return one row per label, with cells `mean ± error`; columns: measurement, value of `by`, decimals."""
    rows = []
    for label, own in table.groupby("label", sort=False):
        lines = own.set_index(by)
        cells = [f"{lines[key][x]:.{places}f} ± {lines[f'{key}_se'][x]:.{places}f}" for key, x, places in columns]
        rows.append([str(label), *cells])
    return rows


def _gradient() -> str:
    ages = (4, 8, 16)
    columns = [("bias", 16, 2), *(("cosine", age, 2) for age in ages), ("noise", 16, 0)]
    head = ["pi_old", "bias, 16 steps old", *(f"cosine, {age}" for age in ages), "noise, 16"]
    return markdown(head, _pivot(load("gradient"), columns, "age"))


def _noise() -> str:
    return markdown(
        ["loss", "beta 1e-4", "0.1", "1"], _pivot(load("noise"), [("noise", b, 1) for b in (1e-4, 0.1, 1)], "beta")
    )


def _fixed_points() -> str:
    table = load("fixed_point")
    table = table[~table.label.isin(["none", "FKL of responses"])].set_index(["label", "beta"])
    best = []
    rows = []
    for label in table.index.unique("label"):
        cells = []
        for beta in BETAS:
            row = table.loc[label, 0.0 if label == "untrained" else beta]
            objective = row.reward - beta * row.kl_start
            cells += [f"{row.reward:.3f}", f"{objective:.3f}", f"{row.entropy:.2f}"]
            if label == "RKL":
                best += ["", f"{objective + row.gap:.3f}", ""]
        rows.append([str(label), *cells])
    rows.append(["maximum of J", *best])
    return markdown(["form", *(f"{name}, {beta}" for beta in BETAS for name in ("reward", "J", "entropy"))], rows)


def half_at(rates: pd.DataFrame) -> float:
    """Return the rate above the best one at which the reward falls to half, interpolated in log rate; inf if never."""
    half, best = rates.reward.max() / 2, rates.reward.idxmax()
    above = rates.loc[best:]
    if (above.reward > half).all():
        return math.inf
    end = above.index[above.reward <= half][0]
    two = above.loc[[end, end - 1]]
    return math.exp(np.interp(half, two.reward, np.log(two.lr)))


def kl_at(rates: pd.DataFrame, reward: float) -> float:
    """Return the KL at which a loss has this reward, interpolated among the rates up to the best one."""
    upto = rates.loc[: rates.reward.idxmax()]
    return float(np.interp(reward, upto.reward, upto.kl))


def best_rates() -> pd.DataFrame:
    """Return a line a length and loss: the best rate, and there, on fresh policies, the reward; at twice it; half; KL.

    `less` is the reward less RPG-REINFORCE's, `kl` that at a reward of SHARED.
    """
    lines = []
    for length, of_length in load("rates").groupby("length"):
        for name in ARMS:
            own = of_length[of_length.label == name].reset_index(drop=True)
            rates, (once, twice) = own[~own.fresh], own[own.fresh].itertuples()
            lines.append({
                "length": length, "label": method_of_name(name), "steps": once.steps, "best": once.lr,
                "reward": once.reward, "error": once.reward_se, "lost": twice.reward - once.reward,
                "lost_error": math.hypot(once.reward_se, twice.reward_se),
                "half": half_at(rates), "kl": kl_at(rates, SHARED),
            })  # fmt: skip
    table = pd.DataFrame(lines)
    first = table.groupby("length")[["reward", "error"]].transform("first")
    return table.assign(less=table.reward - first.reward, less_error=np.hypot(table.error, first.error))


def _rates() -> str:
    rows = []
    for row in best_rates().itertuples():
        less = "" if row.less == 0 else f"{row.less:+.3f} ± {row.less_error:.3f}"
        half = "never" if math.isinf(row.half) else f"{row.half:.2g}"
        rows.append([f"{row.label}, {row.steps:g}", f"{row.length:g}", f"{row.best:.2g}", f"{row.reward:.3f}", less,
                     f"{row.lost:+.3f} ± {row.lost_error:.3f}", half, f"{row.kl:.1f}"])  # fmt: skip
    head = ["loss, steps a batch", "tokens", "best rate", "E[R]", "less RPG-REINFORCE's", "at twice the rate, less",
            "half at the rate", f"KL at E[R] = {SHARED:g}"]  # fmt: skip
    return markdown(head, rows)


def _scopes() -> str:
    rows = []
    for _, row in load("scope").iterrows():
        cells = [f"{row[f'{form} less token']:+.3f} ± {row[f'{form} less token_se']:.3f}" for form in OTHERS]
        rows.append([f"{row.length:g}, {row.steps:g}, {row.beta:g}, {row.lr:g}", f"{row.start:.3f}",
                     f"{row[TOKEN]:.3f} ± {row[f'{TOKEN}_se']:.3f}", *cells])  # fmt: skip
    head = ["tokens, steps a batch, beta, rate", "J at the start", "token", *(f"{form} less token" for form in OTHERS)]
    return markdown(head, rows)


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
    """Draw gradient.png (bias and cosine of expected gradients by age of the samples) and rates.png (E[R] by rate)."""
    _draw_gradient(out)
    rates, labels = load("rates"), {name: method_of_name(name) for name in ARMS}
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


def _draw_gradient(out: Path) -> None:
    table = load("gradient")
    titles = {"bias": "bias: |error| / |grad J|", "cosine": "cosine with grad J"}
    with picture(out / "gradient.png", 1, 2, figsize=(12.5, 4.2), sharex=True) as axes:
        for axis, (key, title) in zip(axes, titles.items(), strict=True):
            for (label, own), (colour, dash) in zip(table.groupby("label", sort=False), LOOKS, strict=True):
                look = {"marker": "o", "markersize": 4, "capsize": 2, "color": colour, "linestyle": dash}
                axis.errorbar(own.age, own[key], own[f"{key}_se"], label=label, **look)
            axis.set_title(title, loc="left")
            axis.set_xlabel("age of the samples, optimizer steps")
            axis.set_xscale("symlog", linthresh=1)
            axis.set_xticks(sorted(set(table.age)), [f"{age:g}" for age in sorted(set(table.age))])
        axes[0].legend(fontsize=9, frameon=False)
