"""All methods of table 8 on the study's task: accuracy by optimizer steps per batch, and contrasts of advantages."""

from pathlib import Path
from typing import NamedTuple

import pandas

from rpg.registry.labels import LOOKS, METHODS
from scripts.studies.common import (
    ACCURACY,
    SCORE,
    UNTRAINED,
    Estimate,
    difference,
    first_score,
    load,
    markdown,
    name_rows,
    picture,
    points,
    untrained_accuracy,
)

ROWS = "eight rows"  # RPG and RPG-REINFORCE with their own advantages: one method (lab/identity.py)
DIVIDED, UNDIVIDED = "eight rows, divided", "GRPO, not divided"
DIVERGENCES = ("FKL", "RKL", "UFKL", "URKL")
REINFORCE = tuple(f"RPG-REINFORCE-{d}" for d in DIVERGENCES)
DIFFERENTIABLE = tuple(f"RPG-{d}" for d in DIVERGENCES)
EIGHT = (*DIFFERENTIABLE, *REINFORCE)
# seeds of all thirteen methods; seeds of the repeated ones; both
FIRST, LATER, ALL = (1, 2, 3), (4, 5, 6, 7, 8, 9), tuple(range(1, 10))
OUTCOMES = (SCORE, ACCURACY)


class Contrast(NamedTuple):
    """Mean of the cells `plus` minus mean of `minus`, in the runs with 16 steps per batch and these seeds."""

    name: str
    seeds: tuple[int, ...]
    by: str  # the column of the cells: "method", of the eight rows alone, or "cell"
    plus: tuple[str, ...]
    minus: tuple[str, ...]


DIVISION = ("GRPO", DIVIDED), (UNDIVIDED, ROWS)
CONTRASTS = (
    Contrast("A/A: REINFORCE minus differentiable", FIRST, "method", REINFORCE, DIFFERENTIABLE),
    Contrast("A/A: reverse minus forward KL", FIRST, "method", EIGHT[1::2], EIGHT[::2]),
    Contrast("A/A: unnormalised minus normalised KL", FIRST, "method",
             tuple(row for row in EIGHT if "-U" in row), tuple(row for row in EIGHT if "-U" not in row)),
    Contrast("REINFORCE++ minus eight rows, seeds 1 to 9", ALL, "cell", ("REINFORCE++",), (ROWS,)),
    Contrast("REINFORCE++ minus eight rows, seeds 4 to 9", LATER, "cell", ("REINFORCE++",), (ROWS,)),
    Contrast("divided minus not divided, seeds 1 to 9", ALL, "cell", *DIVISION),
    Contrast("divided minus not divided, seeds 4 to 9", LATER, "cell", *DIVISION),
)  # fmt: skip


def runs_of_study() -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """Return runs and metrics, without the runs that chose the learning rate.

    Runs have their folder, their optimizer steps per batch and their cell: the method, with the eight rows as one and
    with exchanged advantages apart.
    """
    runs, metrics = load("study")
    runs["folder"] = runs.index.str.split("/").str[0]
    runs = runs[~runs.folder.str.startswith("lr_")].copy()
    runs["steps"] = runs["data.train_batch_size"] // runs["actor_rollout_ref.actor.ppo_mini_batch_size"]
    divided = (runs["algorithm.adv_estimator"] == "grpo") & runs["algorithm.norm_adv_by_std_in_grpo"].astype(bool)
    row, grpo = runs.method.isin(EIGHT), runs.method == "GRPO"
    runs["cell"] = runs.method.mask(row, ROWS).mask(row & divided, DIVIDED).mask(grpo & ~divided, UNDIVIDED)
    return runs, metrics


def estimate(runs: pandas.DataFrame, contrast: Contrast, outcome: str) -> Estimate:
    """Return the contrast, blocked by seed, with the residual error of all runs with these seeds.

    The training score excludes DAPO, because its filter logs only kept groups.
    """
    chosen = runs[(runs.steps == 16) & runs.seed.isin(contrast.seeds)]
    if contrast.by == "method":
        chosen = chosen[chosen.folder.str.startswith("steps_")]
    if outcome == SCORE:
        chosen = chosen[chosen.method != "DAPO"]
    return difference(chosen, contrast.by, contrast.plus, contrast.minus, outcome)


def tables() -> list[str]:
    """Return Markdown: accuracy by method and optimizer steps per batch, means of three seeds; the contrasts."""
    runs, metrics = runs_of_study()
    by_steps = runs[runs.folder.str.startswith("steps_")]
    accuracy = by_steps.pivot_table(index="method", columns="steps", values=ACCURACY)
    score = by_steps[by_steps.steps == 16].groupby("method")[SCORE].mean()
    untrained = first_score(metrics["critic/score/mean"], runs.index[(runs.steps == 16) & (runs.cell == ROWS)])
    rows = [[UNTRAINED, *[f"{untrained_accuracy():.3f}"] * 3, f"{untrained:.3f}"]]
    for method in (method for method in METHODS if method in accuracy.index):
        cells = ["" if pandas.isna(value) else f"{value:.3f}" for value in accuracy.loc[method]]
        rows.append([method, *cells, f"{score[method]:.3f}"])
    contrasts = [
        [contrast.name, *(cell for outcome in OUTCOMES for cell in estimate(runs, contrast, outcome).cells())]
        for contrast in CONTRASTS
    ]
    return [
        markdown(["method", *(f"accuracy, {steps} steps" for steps in accuracy), f"{SCORE}, 16 steps"], rows),
        markdown(["contrast", SCORE, "90 % power", ACCURACY, "90 % power"], contrasts),
    ]


def draw(out: Path) -> None:
    """Draw study.png: a column per number of steps, a row per method, with seeds, mean and standard error."""
    runs, _ = runs_of_study()
    runs, start = runs[runs.folder.str.startswith("steps_")], untrained_accuracy()
    methods = [method for method in METHODS if (runs.method == method).any()]
    size = {"figsize": (12.5, 0.9 + 0.34 * len(methods)), "sharey": True, "sharex": True}
    with picture(out / "study.png", 1, 3, **size) as axes:
        for axis, (steps, group) in zip(axes, runs.groupby("steps"), strict=True):
            axis.axvline(start, color="#999999", linewidth=1, linestyle=":")
            axis.annotate("before\ntraining", (start, 0), (4, 0), textcoords="offset points", va="center",
                          color="#666666", size=9)  # fmt: skip
            axis.axhline(sum(method not in EIGHT for method in methods) - 0.5, color="#bbbbbb", linewidth=0.8)
            for row, method in enumerate(methods):
                values = group[ACCURACY][group.method == method]
                if not values.empty:
                    points(axis, values, row, values.sem(), LOOKS[method].colour)
            axis.set_title(f"{steps} optimizer steps per batch", loc="left")
            axis.set_xlabel("held-out accuracy after 384 prompts")
        name_rows(axes[0], methods)
