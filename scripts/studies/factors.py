"""Filter, advantages and loss in every combination: is RPG-REINFORCE ahead of DAPO when all else is equal?

Only seeds that are finished in all eight cells are used, and for half the learning rate those that are finished in all
cells compared. The score is before filtering.
"""

from collections.abc import Mapping, Sequence
from itertools import product

import numpy
import pandas

from scripts.studies.common import (
    ACCURACY,
    SCORE,
    UNTRAINED,
    complete_seeds,
    difference,
    digits,
    first_score,
    load,
    markdown,
    untrained_accuracy,
)

DROPPED = [f"training/filter_groups/{key}" for key in ("evicted_samples", "discarded_surplus_samples")]
AT_PROMPTS, SAMPLED = "the same per prompt", "prompts per batch"
OUTCOMES = (SCORE, AT_PROMPTS, ACCURACY)
PROMPTS = 32  # of a batch
LOSSES, ADVANTAGES, FILTERS = ("rpg", "dapo"), ("divided", "mean"), ("true", "false")
CELLS = ["-".join(cell) for cell in product(LOSSES, ADVANTAGES, FILTERS)]
LABELS = {"rpg": "RPG-REINFORCE-URKL", "dapo": "DAPO", "divided": "divided", "mean": "not divided", "true": "on",
          "false": "off"}  # fmt: skip
DIGITS = {SCORE: 3, AT_PROMPTS: 3, ACCURACY: 3, SAMPLED: 1}


def cells(*wanted: str) -> list[str]:
    """Return the cells at the full learning rate that have all of these levels."""
    return [cell for cell in CELLS if set(wanted) <= set(cell.split("-"))]


def half(*wanted: str) -> list[str]:
    """Return the same cells at half the learning rate."""
    return [f"{cell}-half" for cell in cells("true", *wanted)]


Effects = Mapping[str, tuple[list[str], list[str], int]]
EFFECTS: Effects = {  # cells with a positive sign, cells with a negative sign, factor
    "RPG-REINFORCE-URKL minus DAPO": (cells("rpg"), cells("dapo"), 1),
    "filter on minus off": (cells("true"), cells("false"), 1),
    "divided minus not divided": (cells("divided"), cells("mean"), 1),
    "loss, with the filter minus without": (
        cells("rpg", "true") + cells("dapo", "false"), cells("rpg", "false") + cells("dapo", "true"), 2),
    "loss, divided minus not divided": (
        cells("rpg", "divided") + cells("dapo", "mean"), cells("rpg", "mean") + cells("dapo", "divided"), 2),
}  # fmt: skip
RATES: Effects = {  # all with the filter; half: 5e-5, whole: 1e-4
    "RPG-REINFORCE-URKL minus DAPO, both half": (half("rpg"), half("dapo"), 1),
    "half minus whole rate": (half(), cells("true"), 1),
    "RPG-REINFORCE-URKL half minus DAPO whole": (half("rpg"), cells("dapo", "true"), 1),
}


def tables() -> list[str]:
    """Return Markdown: means by cell, effects, and effects at half the learning rate."""
    every, metrics = load("factors")
    score = metrics["critic/score_before_filtering/mean"].fillna(metrics["critic/score/mean"])
    sampled = PROMPTS + metrics[DROPPED].fillna(0).sum(axis=1)
    every[SCORE] = score.groupby("run").mean()
    every[AT_PROMPTS] = per_prompt(score, sampled).groupby("run").mean()
    every[SAMPLED] = sampled.groupby("run").mean()
    runs = complete_seeds(every, CELLS)
    untrained = {SCORE: first_score(score, runs.index), ACCURACY: untrained_accuracy()}
    means = runs.groupby("arm")[list(DIGITS)].mean()
    rows = [[UNTRAINED, "", "", *digits(untrained, DIGITS)]]
    rows += [[*(LABELS[level] for level in cell.split("-")), *digits(means.loc[cell], DIGITS)] for cell in CELLS]
    halved = complete_seeds(every, [*cells("true"), *half()])
    return [
        markdown(["loss", "advantages", "filter", *DIGITS], rows, 3),
        effect_table(runs, EFFECTS, OUTCOMES),
        effect_table(halved, RATES, (SCORE, ACCURACY)),
    ]


def per_prompt(score: pandas.Series, sampled: pandas.Series) -> pandas.Series:
    """Return the scores after 32, 64, ... sampled prompts, interpolated between batches, indexed by run and prompts.

    The largest number of prompts is the total of an unfiltered run.
    """
    found = {}
    for run, own in score.groupby("run"):
        wanted = PROMPTS * numpy.arange(1, len(own) + 1)
        found[run] = pandas.Series(numpy.interp(wanted, sampled[run].cumsum(), own), index=wanted)
    return pandas.concat(found, names=["run"])


def effect_table(runs: pandas.DataFrame, effects: Effects, wanted: Sequence[str]) -> str:
    """Return a Markdown table of effects on the wanted outcomes, each a mean over the other factors."""
    rows = []
    for name, (plus, minus, times) in effects.items():
        estimates = [difference(runs, "arm", plus, minus, outcome, times) for outcome in wanted]
        rows.append([name, *(cell for effect in estimates for cell in effect.cells())])
    return markdown(["effect", *(text for outcome in wanted for text in (outcome, "90 % power"))], rows)
