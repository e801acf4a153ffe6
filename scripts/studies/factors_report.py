"""Tables and picture of the runs of factors.sh: filter, advantages and loss in every combination.

python scripts/studies/factors_report.py docs/results/factors OUT

Reads the three files that compact.py wrote; writes runs.md and factors.png into OUT. Only seeds that all eight cells
have finished are used, and of the cells at half the learning rate those that all of these have finished. The outcome of
a run is its mean training score before filtering over all batches.
"""

from collections.abc import Mapping, Sequence
from itertools import product
from pathlib import Path

import numpy
import pandas
from report import SCORE, arguments, band, complete_seeds, difference, markdown, outcomes, picture, write

KEPT, BEFORE = "critic/score/mean", "critic/score_before_filtering/mean"
FILTER = "training/filter_groups"
AT_PROMPTS, ACCURACY = "the same per prompt", "accuracy"
OUTCOMES = (SCORE, AT_PROMPTS, ACCURACY)
PROMPTS = 32  # of a batch
LOSSES, ADVANTAGES, FILTERS = ("rpg", "dapo"), ("divided", "mean"), ("true", "false")
CELLS = ["-".join(cell) for cell in product(LOSSES, ADVANTAGES, FILTERS)]
WITH_HALF = [cell for cell in CELLS if "true" in cell] + [f"{cell}-half" for cell in CELLS if "true" in cell]
LABELS = {"rpg": "RPG-REINFORCE-URKL", "dapo": "DAPO", "divided": "divided", "mean": "not divided", "true": "on",
          "false": "off"}  # fmt: skip


def cells(*wanted: str) -> list[str]:
    """The cells at the whole learning rate that have all of these levels."""
    return [cell for cell in CELLS if set(wanted) <= set(cell.split("-"))]


def half(*wanted: str) -> list[str]:
    """The same at half the learning rate."""
    return [f"{cell}-half" for cell in cells("true", *wanted)]


Effects = Mapping[str, tuple[list[str], list[str], int]]
EFFECTS: Effects = {  # cells whose means are added, cells whose means are subtracted, times
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
RATES: Effects = {  # the filter on in all; half: 5e-5, whole: 1e-4
    "RPG-REINFORCE-URKL minus DAPO, both half": (half("rpg"), half("dapo"), 1),
    "half minus whole rate": (half(), cells("true"), 1),
    "the release's rates: RPG-REINFORCE-URKL half minus DAPO whole": (half("rpg"), cells("dapo", "true"), 1),
}


def main() -> None:
    """Write runs.md and factors.png."""
    settings, metrics, out = arguments()
    score = metrics[BEFORE].fillna(metrics[KEPT]).unstack("run")
    dropped = metrics[[f"{FILTER}/evicted_samples", f"{FILTER}/discarded_surplus_samples"]].fillna(0).sum(axis=1)
    sampled = (PROMPTS + dropped).unstack("run")
    every = frame(settings, metrics, score, sampled)
    runs = complete_seeds(every[every.cell.isin(CELLS)], "cell", len(CELLS))
    rates = complete_seeds(every[every.cell.isin(WITH_HALF)], "cell", len(WITH_HALF))
    write(out / "runs.md", *table(runs), *(table_of_rates(rates) if len(rates) else []))
    draw(runs, score, sampled, out / "factors.png")


def frame(
    runs: pandas.DataFrame, metrics: pandas.DataFrame, score: pandas.DataFrame, sampled: pandas.DataFrame
) -> pandas.DataFrame:
    """A line for each run: cell, seed and outcomes.

    "per prompt": the mean score while the run had sampled as many prompts as an unfiltered run samples in all.
    """
    own = {
        "cell": runs.index.str.rpartition("-seed").get_level_values(0),
        "seed": runs["data.seed"],
        SCORE: score.mean(),
        AT_PROMPTS: pandas.Series({run: per_prompt(score[run], sampled[run]).mean() for run in score}),
        "prompts per batch": sampled.mean(),
    }
    return outcomes(metrics, ACCURACY).assign(**own)


def per_prompt(score: pandas.Series, sampled: pandas.Series) -> pandas.Series:
    """Score of a run when it had sampled 32, 64, ... prompts, interpolated between its batches."""
    wanted = PROMPTS * numpy.arange(1, len(score) + 1)
    return pandas.Series(numpy.interp(wanted, sampled.cumsum(), score), index=wanted)


def table(runs: pandas.DataFrame) -> list[list[str]]:
    """Markdown: means by cell, and the effects."""
    effects = effect_table(runs, EFFECTS, OUTCOMES)
    summary = (
        f"{len(runs)} runs, {runs.seed.nunique()} seeds of each cell. Training score: mean over 12 batches, before "
        "filtering. Per prompt: the same over the first 384 prompts sampled, which is all that an unfiltered run has."
    )
    explained = "Each effect is a mean over the other factors, blocked by seed, ± one standard error."
    return [["# The factorial runs"], [summary], cell_table(runs, CELLS), [explained], effects]


def table_of_rates(runs: pandas.DataFrame) -> list[list[str]]:
    """Markdown: the cells at half the learning rate, and their effects."""
    summary = (
        f"With the filter on, {runs.seed.nunique()} seeds of each cell also ran at half the learning rate (5e-5), "
        "which the release gives RPG-REINFORCE and not DAPO."
    )
    cells_at_half = cell_table(runs, half())
    return [["## At half the learning rate"], [summary], cells_at_half, effect_table(runs, RATES, (SCORE, ACCURACY))]


def cell_table(runs: pandas.DataFrame, shown: list[str]) -> list[str]:
    """Markdown: means by cell."""
    means = runs.groupby("cell").mean(numeric_only=True)
    digits = {SCORE: 3, AT_PROMPTS: 3, ACCURACY: 3, "prompts per batch": 1, "entropy": 2, "tokens": 1, "clipped": 3,
              "largest KL": 3}  # fmt: skip
    rows = [
        [*(LABELS[level] for level in cell.split("-")[:3]), *(f"{means.loc[cell, k]:.{d}f}" for k, d in digits.items())]
        for cell in shown
    ]
    return markdown(["loss", "advantages", "filter", *digits], rows, 3)


def effect_table(runs: pandas.DataFrame, effects: Effects, wanted: Sequence[str]) -> list[str]:
    """Markdown: effects on some outcomes."""
    rows = []
    for name, effect in effects.items():
        estimates = [difference(runs, "cell", *effect[:2], outcome, effect[2]) for outcome in wanted]
        rows.append([name, *(text for one in estimates for text in (str(one), f"{one.detectable:.3f}"))])
    return markdown(["effect", *(text for outcome in wanted for text in (outcome, "90 % power"))], rows)


def draw(runs: pandas.DataFrame, score: pandas.DataFrame, sampled: pandas.DataFrame, path: Path) -> None:
    """Score by batch and by prompts sampled, means with bands of one error; the effects with 95 % intervals."""
    looks = {("rpg", "true"): ("#08519c", "-"), ("dapo", "true"): ("#fd8d3c", "-"), ("rpg", "false"): ("#08519c", ":"),
             ("dapo", "false"): ("#fd8d3c", ":")}  # fmt: skip
    by_prompt = pandas.DataFrame({run: per_prompt(score[run], sampled[run]) for run in score})
    size = {"figsize": (15, 5.2), "width_ratios": (1, 1, 1.15), "layout": "constrained"}
    with picture(path, 1, 3, **size) as axes:
        for axis, label, values in zip(axes, ("batch", "prompts sampled"), (score, by_prompt), strict=False):
            for (loss, filtered), (colour, line) in looks.items():
                chosen = values[runs.index[runs.cell.isin(cells(loss, filtered))]]
                band(axis, chosen, color=colour, linestyle=line, label=f"{LABELS[loss]}, filter {LABELS[filtered]}")
            axis.set_xlabel(label)
            axis.set_title("training score before filtering", loc="left")
        axes[0].legend(fontsize=9, loc="lower right")
        for shift, (outcome, colour) in enumerate(zip(OUTCOMES, ("#08519c", "#2ca02c", "#888888"), strict=True)):
            effects = [difference(runs, "cell", *effect[:2], outcome, effect[2]) for effect in EFFECTS.values()]
            places = [place + 0.22 * (shift - 1) for place in range(len(effects))]
            axes[2].errorbar([effect.value for effect in effects], places, xerr=[effect.reach for effect in effects],
                             fmt="o", color=colour, label=outcome, markersize=4, capsize=2)  # fmt: skip
        axes[2].axvline(0, color="black", linewidth=0.8)
        axes[2].set_yticks(range(len(EFFECTS)), [name.replace(", ", ",\n") for name in EFFECTS])
        axes[2].set_ylim(len(EFFECTS) - 0.5, -0.5)
        axes[2].set_title("effects, 95 % intervals", loc="left")
        axes[2].legend(fontsize=9, loc="upper center", bbox_to_anchor=(0.3, -0.08), ncols=3, frameon=False)


if __name__ == "__main__":
    main()
