"""Table and picture of the runs of dynamics.sh: how four kinds of advantages train over 48 batches.

python scripts/studies/dynamics_report.py docs/results/dynamics OUT

Reads the three files that compact.py wrote; writes runs.md and dynamics.png into OUT. Only seeds that all four arms
have finished are used. Entropy, pass@8 and response length of a run are taken where its accuracy first passes 0.45,
interpolated between batches or validations. The accuracy named beforehand was 0.55, which too few runs pass.
"""

from pathlib import Path

import numpy
import pandas
from report import SCORE, accuracies, arguments, band, complete_seeds, difference, markdown, outcomes, picture, write

NAMED, THRESHOLD = 0.55, 0.45
ACCURACY, PASSING = "last accuracy", f"batch at {THRESHOLD}"
ENTROPY, PASS, TOKENS = (f"{name} at {THRESHOLD}" for name in ("entropy", "pass@8", "tokens"))
PASSES = f"passes {NAMED}"
GAP = "change of pass@8 less accuracy"
BASE = "rpg"
ARMS = {  # directories of dynamics.sh: label and colour
    BASE: ("RPG-REINFORCE-URKL", "#08519c"),
    "whitened": ("RPG-REINFORCE-URKL, whitened", "#2ca02c"),
    "divided": ("DAPO, divided", "#fd8d3c"),
    "divided_k3": ("GRPO, divided, k3", "#555555"),
}
DIGITS = {ENTROPY: 3, PASS: 3, TOKENS: 1, SCORE: 3, ACCURACY: 3}


def main() -> None:
    """Write runs.md and dynamics.png."""
    settings, metrics, out = arguments()
    pass_at_8 = metrics.filter(regex=r"/acc/best@8/mean$").squeeze(axis=1).dropna()
    runs = frame(settings, metrics, pass_at_8)
    write(out / "runs.md", *table(runs))
    draw(runs, metrics, pass_at_8, out / "dynamics.png")


def frame(runs: pandas.DataFrame, metrics: pandas.DataFrame, pass_at_8: pandas.Series) -> pandas.DataFrame:
    """A line for each run of a seed that all arms have: arm, seed and outcomes; NaN where 0.45 is not passed."""
    own = {}
    for run, accuracy in accuracies(metrics).groupby("run"):
        accuracy, best = accuracy.droplevel("run"), pass_at_8[run]
        batch = first_passing(accuracy)
        own[run] = {
            PASSING: batch,
            PASSES: (accuracy >= NAMED).any(),
            ENTROPY: at(batch, metrics.loc[run]["actor/entropy"]),
            TOKENS: at(batch, metrics.loc[run]["response_length/mean"]),
            PASS: at(batch, best),
            GAP: (best - accuracy).iloc[-1] - (best - accuracy).iloc[0],
        }
    arms = {"arm": runs.index.str.rpartition("-seed").get_level_values(0), "seed": runs["data.seed"]}
    table = outcomes(metrics, ACCURACY).assign(**pandas.DataFrame.from_dict(own, orient="index"), **arms)
    return complete_seeds(table, "arm", len(ARMS))


def first_passing(accuracy: pandas.Series) -> float:
    """The batch at which a run's accuracy first is THRESHOLD, interpolated between validations; NaN if it never is."""
    passing = accuracy.index[accuracy >= THRESHOLD]
    if not len(passing):
        return numpy.nan
    place = accuracy.index.get_loc(passing[0])
    around = accuracy.iloc[max(place - 1, 0) : place + 1]
    return float(numpy.interp(THRESHOLD, around, around.index))


def at(batch: float, values: pandas.Series) -> float:
    """The value of a metric at a batch, interpolated between those where it was logged."""
    values = values.dropna()
    return float(numpy.interp(batch, values.index, values))


def table(runs: pandas.DataFrame) -> list[list[str]]:
    """Markdown: means by arm, and differences to RPG-REINFORCE-URKL blocked by seed."""
    means = runs.groupby("arm")[list(DIGITS)].mean()
    rows = [[label, *(f"{means.loc[arm, key]:.{digits}f}" for key, digits in DIGITS.items())]
            for arm, (label, _) in ARMS.items()]  # fmt: skip
    pairs = [(arm, BASE) for arm in ARMS if arm != BASE] + [("divided_k3", "divided")]
    estimates = {pair: [difference(runs.dropna(subset=key), "arm", pair[:1], pair[1:], key) for key in DIGITS]
                 for pair in pairs}  # fmt: skip
    differences = [[f"{ARMS[plus][0]} minus {ARMS[minus][0]}", *map(str, each)]
                   for (plus, minus), each in estimates.items()]  # fmt: skip
    differences.append(["90 % power", *(f"{estimate.detectable:.3f}" for estimate in estimates[pairs[0]])])
    summary = (
        f"{len(runs)} runs, {runs.seed.nunique()} seeds of each arm, 48 batches. {runs[PASSES].sum()} of them pass the "
        f"accuracy {NAMED} that was named beforehand, so outcomes are shown at {THRESHOLD}, chosen afterwards; "
        f"{runs[PASSING].notna().sum()} runs pass it. pass@8 is verl's best@8, 8 answers drawn with replacement. In "
        f"{(runs[GAP] < 0).sum()} of {len(runs)} runs pass@8 less accuracy is smaller at the end than after 6 batches."
    )
    explained = (
        "Differences are blocked by seed, ± one standard error. Whitened: over the batch; divided: by the group's "
        "deviation; k3: 1e-3, to the initial policy."
    )
    by_arm, by_pair = markdown(["arm", *DIGITS], rows), markdown(["difference", *DIGITS], differences)
    return [["# The runs of 48 batches"], [summary], by_arm, [explained], by_pair]


def draw(runs: pandas.DataFrame, metrics: pandas.DataFrame, pass_at_8: pandas.Series, path: Path) -> None:
    """Score, entropy, length, accuracy and pass@8 by batch, means with bands of one error."""
    shown = {"training score": "critic/score/mean", "entropy (nats per token)": "actor/entropy",
             "response length (tokens)": "response_length/mean"}  # fmt: skip
    with picture(path, 2, 2, figsize=(12.5, 8.5), layout="constrained") as axes:
        for axis, (title, key) in zip(axes.flat, shown.items(), strict=False):
            for arm, (label, colour) in ARMS.items():
                band(axis, metrics[key].unstack("run")[runs.index[runs.arm == arm]], color=colour, label=label)
            axis.set_title(title, loc="left")
            axis.set_xlabel("batch")
        for values, line in ((accuracies(metrics), "-"), (pass_at_8, "--")):
            for arm, (_, colour) in ARMS.items():
                chosen = values.unstack("run")[runs.index[runs.arm == arm]]
                band(axes[1, 1], chosen, color=colour, linestyle=line)
        axes[1, 1].set_title("accuracy (lines) and pass@8 (dashes)", loc="left")
        axes[1, 1].set_xlabel("batch")
        axes[0, 0].legend(fontsize=9, loc="lower right")


if __name__ == "__main__":
    main()
