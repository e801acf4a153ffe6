"""Tables and picture of the runs of factors.sh: filter, advantages and loss in every combination.

python scripts/studies/factors_report.py docs/results/factors OUT

Reads the three files that compact.py wrote; writes runs.md and factors.png into OUT. Only seeds that are finished
in all eight cells are used, and for half the learning rate those that are finished in all cells compared. A run's
outcome is its mean training score before filtering over all batches.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy
import pandas
from report import SCORE, bands, complete_seeds, difference, digits, load, markdown, name_rows, picture, write

KEPT, BEFORE = "critic/score/mean", "critic/score_before_filtering/mean"
DROPPED = [f"training/filter_groups/{key}" for key in ("evicted_samples", "discarded_surplus_samples")]
AT_PROMPTS, ACCURACY = "the same per prompt", "accuracy"
OUTCOMES = (SCORE, AT_PROMPTS, ACCURACY)
PROMPTS = 32  # of a batch
LOSSES, ADVANTAGES, FILTERS = ("rpg", "dapo"), ("divided", "mean"), ("true", "false")
CELLS = ["-".join(cell) for cell in product(LOSSES, ADVANTAGES, FILTERS)]
LABELS = {"rpg": "RPG-REINFORCE-URKL", "dapo": "DAPO", "divided": "divided", "mean": "not divided", "true": "on",
          "false": "off"}  # fmt: skip
DIGITS = {SCORE: 3, AT_PROMPTS: 3, ACCURACY: 3, "prompts per batch": 1, "entropy": 2, "tokens": 1, "clipped": 3,
          "largest KL": 3}  # fmt: skip


def cells(*wanted: str) -> list[str]:
    """Return the cells at the full learning rate that have all of these levels."""
    return [cell for cell in CELLS if set(wanted) <= set(cell.split("-"))]


def half(*wanted: str) -> list[str]:
    """Return the same cells at half the learning rate."""
    return [f"{cell}-half" for cell in cells("true", *wanted)]


Effects = Mapping[str, tuple[list[str], list[str], int]]
EFFECTS: Effects = {  # cells with a positive sign, cells with a negative sign, factor
    "RPG-REINFORCE-URKL minus DAPO": (cells("rpg"), cells("dapo"), 1),
    "with the filter": (cells("rpg", "true"), cells("dapo", "true"), 1),
    "without": (cells("rpg", "false"), cells("dapo", "false"), 1),
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
    "the release's rates: RPG-REINFORCE-URKL half minus DAPO whole": (half("rpg"), cells("dapo", "true"), 1),
}


def main() -> None:
    """Write runs.md and factors.png."""
    every, metrics, out = load(ACCURACY)
    score = metrics[BEFORE].fillna(metrics[KEPT])
    sampled = PROMPTS + metrics[DROPPED].fillna(0).sum(axis=1)
    by_prompt = per_prompt(score, sampled)
    every[SCORE] = score.groupby("run").mean()
    every[AT_PROMPTS] = by_prompt.groupby("run").mean()
    every["prompts per batch"] = sampled.groupby("run").mean()
    runs = complete_seeds(every, CELLS)
    write(out / "runs.md", *table(runs), *table_of_rates(complete_seeds(every, [*cells("true"), *half()])))
    draw(runs, score, by_prompt, out / "factors.png")


def per_prompt(score: pandas.Series, sampled: pandas.Series) -> pandas.Series:
    """Return the scores after 32, 64, ... sampled prompts, interpolated between batches, indexed by run and prompts.

    The largest number of prompts is the total of an unfiltered run.
    """
    found = {}
    for run, own in score.groupby("run"):
        wanted = PROMPTS * numpy.arange(1, len(own) + 1)
        found[run] = pandas.Series(numpy.interp(wanted, sampled[run].cumsum(), own), index=wanted)
    return pandas.concat(found, names=["run"])


def table(runs: pandas.DataFrame) -> list[str]:
    """Return Markdown: means by cell, and the effects."""
    summary = (
        f"{len(runs)} runs, {runs.seed.nunique()} seeds of each cell. Training score: mean over 12 batches, before "
        "filtering. Per prompt: the same over the first 384 prompts sampled, which is all that an unfiltered run has."
    )
    explained = "Each effect is a mean over the other factors, blocked by seed, ± one standard error."
    effects = effect_table(runs, EFFECTS, OUTCOMES)
    return ["# The factorial runs", summary, cell_table(runs, CELLS), explained, effects]


def table_of_rates(runs: pandas.DataFrame) -> list[str]:
    """Return Markdown: the cells at half the learning rate, and their effects."""
    summary = (
        f"With the filter on, {runs.seed.nunique()} seeds of each cell also ran at half the learning rate (5e-5), "
        "which the release gives RPG-REINFORCE and not DAPO."
    )
    effects = effect_table(runs, RATES, (SCORE, ACCURACY))
    return ["## At half the learning rate", summary, cell_table(runs, half()), effects]


def cell_table(runs: pandas.DataFrame, shown: list[str]) -> str:
    """Return a Markdown table of means by cell."""
    means = runs.groupby("arm").mean(numeric_only=True)
    rows = [[*(LABELS[level] for level in cell.split("-")[:3]), *digits(means.loc[cell], DIGITS)] for cell in shown]
    return markdown(["loss", "advantages", "filter", *DIGITS], rows, 3)


def effect_table(runs: pandas.DataFrame, effects: Effects, wanted: Sequence[str]) -> str:
    """Return a Markdown table of effects on the wanted outcomes."""
    rows = []
    for name, (plus, minus, times) in effects.items():
        estimates = [difference(runs, "arm", plus, minus, outcome, times) for outcome in wanted]
        rows.append([name, *(cell for one in estimates for cell in one.cells())])
    return markdown(["effect", *(text for outcome in wanted for text in (outcome, "90 % power"))], rows)


def draw(runs: pandas.DataFrame, score: pandas.Series, by_prompt: pandas.Series, path: Path) -> None:
    """Draw the score by batch and by prompts sampled (means with bands of one standard error), and the effects."""
    looks = []
    for filtered, loss in product(FILTERS, LOSSES):
        look = {"color": {"rpg": "#08519c", "dapo": "#fd8d3c"}[loss], "linestyle": "-" if filtered == "true" else ":"}
        label = f"{LABELS[loss]}, filter {LABELS[filtered]}"
        looks.append((runs.index[runs.arm.isin(cells(loss, filtered))], {**look, "label": label}))
    size = {"figsize": (15, 5.2), "width_ratios": (1, 1, 1.15), "layout": "constrained"}
    with picture(path, 1, 3, **size) as axes:
        bands(axes[0], "training score before filtering", score, looks)
        bands(axes[1], "training score before filtering", by_prompt, looks)
        axes[1].set_xlabel("prompts sampled")
        axes[0].legend(fontsize=9, loc="lower right")
        for shift, (outcome, colour) in enumerate(zip(OUTCOMES, ("#08519c", "#2ca02c", "#888888"), strict=True)):
            effects = [difference(runs, "arm", *effect[:2], outcome, effect[2]) for effect in EFFECTS.values()]
            places = [place + 0.22 * (shift - 1) for place in range(len(effects))]
            axes[2].errorbar([effect.value for effect in effects], places, xerr=[effect.reach for effect in effects],
                             fmt="o", color=colour, label=outcome, markersize=4, capsize=2)  # fmt: skip
        axes[2].axvline(0, color="black", linewidth=0.8)
        name_rows(axes[2], [name.replace(", ", ",\n") for name in EFFECTS])
        axes[2].set_title("effects, 95 % intervals", loc="left")
        axes[2].legend(fontsize=9, loc="upper center", bbox_to_anchor=(0.3, -0.08), ncols=3, frameon=False)


if __name__ == "__main__":
    main()
