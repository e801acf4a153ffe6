"""Tables and picture of the runs of factors.sh: filter, advantages and loss in every combination.

python docs/results/factors_report.py docs/results/factors OUT

Reads the three files that compact.py wrote; writes runs.md and factors.png into OUT. Only seeds that all eight cells
have finished are used. The outcome of a run is its mean training score before filtering over all batches.
"""

import sys
from itertools import product
from pathlib import Path

import compact
import matplotlib
import numpy
import pandas

matplotlib.use("Agg")
from contrasts import Estimate, difference, t_quantile
from matplotlib import pyplot

from rpg.results import figures

KEPT, BEFORE = "critic/score/mean", "critic/score_before_filtering/mean"
FILTER = "training/filter_groups"
ACCURACY = "val-core/reasoning-gym/chain_sum/acc/mean@8"
SCORE, AT_PROMPTS, LAST = "training score", "the same per prompt", "accuracy"
OUTCOMES = (SCORE, AT_PROMPTS, LAST)
PROMPTS = 32  # of a batch
LOSSES, ADVANTAGES, FILTERS = ("rpg", "dapo"), ("divided", "mean"), ("true", "false")
CELLS = ["-".join(cell) for cell in product(LOSSES, ADVANTAGES, FILTERS)]
LABELS = {"rpg": "RPG-REINFORCE-URKL", "dapo": "DAPO", "divided": "divided", "mean": "not divided", "true": "on",
          "false": "off"}  # fmt: skip


def cells(*wanted: str) -> list[str]:
    """The cells that have all of these levels."""
    return [cell for cell in CELLS if set(wanted) <= set(cell.split("-"))]


EFFECTS = {  # cells whose means are added, cells whose means are subtracted, times
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


def main() -> None:
    """Write runs.md and factors.png."""
    study, out = map(Path, sys.argv[1:])
    metrics = compact.metrics_of(study)
    score = metrics[BEFORE].fillna(metrics[KEPT]).unstack("run")
    dropped = metrics[[f"{FILTER}/evicted_samples", f"{FILTER}/discarded_surplus_samples"]].fillna(0).sum(axis=1)
    sampled = (PROMPTS + dropped).unstack("run")
    runs = frame(compact.runs_of(study), metrics, score, sampled)
    out.mkdir(parents=True, exist_ok=True)
    (out / "runs.md").write_text("\n".join(table(runs)) + "\n")
    draw(runs, score, sampled, out / "factors.png")


def frame(
    runs: pandas.DataFrame, metrics: pandas.DataFrame, score: pandas.DataFrame, sampled: pandas.DataFrame
) -> pandas.DataFrame:
    """A line for each run of a seed that all cells have: cell, seed and outcomes.

    "per prompt": the mean score while the run had sampled as many prompts as an unfiltered run samples in all.
    """
    by_run = metrics.groupby("run")
    table = pandas.DataFrame(
        {
            "cell": runs.index.str.rpartition("-seed").get_level_values(0),
            "seed": runs["data.seed"],
            SCORE: score.mean(),
            AT_PROMPTS: pandas.Series({run: per_prompt(score[run], sampled[run]).mean() for run in score}),
            LAST: metrics[ACCURACY].dropna().groupby("run").last(),
            "prompts per batch": sampled.mean(),
            "entropy": by_run["actor/entropy"].last(),
            "tokens": by_run["response_length/mean"].last(),
            "clipped": by_run["actor/pg_clipfrac"].median(),
            "largest KL": by_run["training/off_policy/kl"].max(),
        }
    )
    return table[table.groupby("seed").cell.transform("nunique") == len(CELLS)]


def per_prompt(score: pandas.Series, sampled: pandas.Series) -> pandas.Series:
    """Score of a run when it had sampled 32, 64, ... prompts, interpolated between its batches."""
    wanted = PROMPTS * numpy.arange(1, len(score) + 1)
    return pandas.Series(numpy.interp(wanted, sampled.cumsum(), score), index=wanted)


def table(runs: pandas.DataFrame) -> list[str]:
    """Markdown: means by cell, and the effects."""
    means = runs.groupby("cell").mean(numeric_only=True)
    digits = {SCORE: 3, AT_PROMPTS: 3, LAST: 3, "prompts per batch": 1, "entropy": 2, "tokens": 1, "clipped": 3,
              "largest KL": 3}  # fmt: skip
    rows = [
        [*(LABELS[level] for level in cell.split("-")), *(f"{means.loc[cell, k]:.{d}f}" for k, d in digits.items())]
        for cell in CELLS
    ]
    effects = []
    for name in EFFECTS:
        row = [name]
        for outcome in OUTCOMES:
            effect = estimate(runs, name, outcome)
            row += [str(effect), f"{effect.detectable:.3f}"]
        effects.append(row)
    head = ["effect"]
    for outcome in OUTCOMES:
        head += [outcome, "90 % power"]
    return [
        "# The factorial runs",
        "",
        f"{len(runs)} runs, {runs.seed.nunique()} seeds of each cell. Training score: mean over 12 batches, before "
        "filtering. Per prompt: the same over the first 384 prompts sampled, which is all that an unfiltered run has.",
        "",
        *compact.markdown(["loss", "advantages", "filter", *digits], rows, 3),
        "",
        "Each effect is a mean over the other factors, blocked by seed, ± one standard error.",
        "",
        *compact.markdown(head, effects),
    ]


def estimate(runs: pandas.DataFrame, effect: str, outcome: str) -> Estimate:
    """An effect on an outcome."""
    plus, minus, times = EFFECTS[effect]
    return difference(runs, "cell", plus, minus, outcome, times)


def draw(runs: pandas.DataFrame, score: pandas.DataFrame, sampled: pandas.DataFrame, path: Path) -> None:
    """Score by batch and by prompts sampled, means with bands of one error; the effects with 95 % intervals."""
    looks = {("rpg", "true"): ("#08519c", "-"), ("dapo", "true"): ("#fd8d3c", "-"), ("rpg", "false"): ("#08519c", ":"),
             ("dapo", "false"): ("#fd8d3c", ":")}  # fmt: skip
    by_prompt = pandas.DataFrame({run: per_prompt(score[run], sampled[run]) for run in score})
    with pyplot.rc_context(figures.STYLE):
        figure, axes = pyplot.subplots(1, 3, figsize=(15, 5.2), width_ratios=(1, 1, 1.15), layout="constrained")
        panels = (("batch", score), ("prompts sampled", by_prompt))
        for axis, (label, values) in zip(axes, panels, strict=False):
            for (loss, filtered), (colour, line) in looks.items():
                chosen = values[runs.index[runs.cell.isin(cells(loss, filtered))]]
                mean, error = chosen.mean(axis=1), chosen.sem(axis=1)
                name = f"{LABELS[loss]}, filter {LABELS[filtered]}"
                axis.plot(mean.index, mean, color=colour, linestyle=line, label=name)
                axis.fill_between(mean.index, mean - error, mean + error, color=colour, alpha=0.12, linewidth=0)
            axis.set_xlabel(label)
            axis.set_title("training score before filtering", loc="left")
        axes[0].legend(fontsize=9, loc="lower right")
        for shift, (outcome, colour) in enumerate(zip(OUTCOMES, ("#08519c", "#2ca02c", "#888888"), strict=True)):
            effects = [estimate(runs, name, outcome) for name in EFFECTS]
            reach = [t_quantile(0.975, effect.freedom) * effect.error for effect in effects]
            places = [place + 0.22 * (shift - 1) for place in range(len(effects))]
            axes[2].errorbar([effect.value for effect in effects], places, xerr=reach, fmt="o", color=colour,
                             label=outcome, markersize=4, capsize=2)  # fmt: skip
        axes[2].axvline(0, color="black", linewidth=0.8)
        axes[2].set_yticks(range(len(EFFECTS)), [name.replace(", ", ",\n") for name in EFFECTS])
        axes[2].set_ylim(len(EFFECTS) - 0.5, -0.5)
        axes[2].set_title("effects, 95 % intervals", loc="left")
        axes[2].legend(fontsize=9, loc="upper center", bbox_to_anchor=(0.3, -0.08), ncols=3, frameon=False)
        figure.savefig(path, dpi=90)


if __name__ == "__main__":
    main()
