"""Table and picture of the runs of dynamics.sh: how four kinds of advantages train over 48 batches.

python scripts/studies/dynamics_report.py docs/results/dynamics OUT

Reads the three files that compact.py wrote; writes runs.md and dynamics.png into OUT. Only seeds that are
finished in all four arms are used. Entropy, pass@8 and response length of a run are taken where its accuracy first
passes 0.45, interpolated between batches or validations. The accuracy named beforehand, 0.55, is reached by too few
runs.
"""

from pathlib import Path

import numpy
import pandas
from report import SCORE, accuracies, bands, complete_seeds, difference, digits, load, markdown, picture, write

NAMED, THRESHOLD = 0.55, 0.45
ACCURACY, PASSING = "last accuracy", f"batch at {THRESHOLD}"
ENTROPY, PASS, TOKENS = (f"{name} at {THRESHOLD}" for name in ("entropy", "pass@8", "tokens"))
PASSES, AT_NAMED = f"reach {NAMED}", f"entropy at {NAMED}"
GAP = "change of pass@8 less accuracy"
BASE = "rpg"
ARMS = {  # directories of dynamics.sh: label and colour
    BASE: ("RPG-REINFORCE-URKL", "#08519c"),
    "whitened": ("RPG-REINFORCE-URKL, whitened", "#2ca02c"),
    "divided": ("DAPO, divided", "#fd8d3c"),
    "divided_k3": ("GRPO, divided, k3", "#555555"),
}
PAIRS = (("whitened", BASE), ("divided", BASE), ("divided_k3", BASE), ("divided_k3", "divided"))
DIGITS = {ENTROPY: 3, PASS: 3, TOKENS: 1, SCORE: 3, ACCURACY: 3}


def main() -> None:
    """Write runs.md and dynamics.png."""
    runs, metrics, out = load(ACCURACY)
    pass_at_8 = metrics.filter(regex=r"/acc/best@8/mean$").squeeze(axis=1).dropna()
    own = {run: outcomes(metrics.loc[run], accuracies(metrics)[run], pass_at_8[run]) for run in runs.index}
    runs = complete_seeds(runs.join(pandas.DataFrame.from_dict(own, orient="index")), ARMS)
    write(out / "runs.md", *table(runs))
    draw(runs, metrics, pass_at_8, out / "dynamics.png")


def outcomes(metrics: pandas.DataFrame, accuracy: pandas.Series, pass_at_8: pandas.Series) -> dict[str, float]:
    """Return a run's outcomes; NaN at accuracies that it does not reach. All arguments are indexed by step."""
    batch, named = first_passing(accuracy, THRESHOLD), first_passing(accuracy, NAMED)
    gap = pass_at_8 - accuracy
    return {
        PASSING: batch,
        PASSES: not numpy.isnan(named),
        AT_NAMED: at(named, metrics["actor/entropy"]),
        ENTROPY: at(batch, metrics["actor/entropy"]),
        TOKENS: at(batch, metrics["response_length/mean"]),
        PASS: at(batch, pass_at_8),
        GAP: gap.iloc[-1] - gap.iloc[0],
    }


def first_passing(accuracy: pandas.Series, threshold: float) -> float:
    """Return the batch at which the accuracy first reaches `threshold`, interpolated between validations, or NaN."""
    passing = accuracy.index[accuracy >= threshold]
    if not len(passing):
        return numpy.nan
    place = accuracy.index.get_loc(passing[0])
    around = accuracy.iloc[max(place - 1, 0) : place + 1]
    return float(numpy.interp(threshold, around, around.index))


def at(batch: float, values: pandas.Series) -> float:
    """Return a metric's value at a batch, interpolated between logged batches."""
    values = values.dropna()
    return float(numpy.interp(batch, values.index, values))


def table(runs: pandas.DataFrame) -> list[str]:
    """Return Markdown: means by arm, and differences blocked by seed."""
    means = runs.groupby("arm")[[*DIGITS, AT_NAMED]].mean()
    reached = runs.groupby("arm")[PASSES].sum()
    rows = [
        [
            label,
            *digits(means.loc[arm], DIGITS),
            f"{reached[arm]}",
            f"{means.loc[arm, AT_NAMED]:.3f}" if reached[arm] else "–",
        ]
        for arm, (label, _) in ARMS.items()
    ]
    differences = []
    for plus, minus in PAIRS:
        each = [difference(runs.dropna(subset=key), "arm", [plus], [minus], key) for key in DIGITS]
        differences.append([f"{ARMS[plus][0]} minus {ARMS[minus][0]}", *map(str, each)])
    differences.append(["90 % power", *(f"{one.detectable:.3f}" for one in each)])
    summary = (
        f"{len(runs)} runs, {runs.seed.nunique()} seeds of each arm, 48 batches. {runs[PASSES].sum()} reach the "
        f"accuracy {NAMED} that was named beforehand, so outcomes are compared at {THRESHOLD}, chosen afterwards; "
        f"{runs[PASSING].notna().sum()} runs reach it. pass@8 is verl's best@8, 8 answers drawn with replacement. In "
        f"{(runs[GAP] < 0).sum()} of {len(runs)} runs pass@8 less accuracy is smaller at the end than after 6 batches."
    )
    explained = (
        "Differences are blocked by seed, ± one standard error. Whitened: over the batch; divided: by the group's "
        "deviation; k3: 1e-3, to the initial policy."
    )
    by_arm, by_pair = markdown(["arm", *DIGITS, PASSES, AT_NAMED], rows), markdown(["difference", *DIGITS], differences)
    return ["# The runs of 48 batches", summary, by_arm, explained, by_pair]


def draw(runs: pandas.DataFrame, metrics: pandas.DataFrame, pass_at_8: pandas.Series, path: Path) -> None:
    """Draw score, entropy, length, accuracy and pass@8 by batch: means with bands of one standard error."""
    shown = {"training score": "critic/score/mean", "entropy (nats per token)": "actor/entropy",
             "response length (tokens)": "response_length/mean"}  # fmt: skip
    looks = [(runs.index[runs.arm == arm], {"color": colour, "label": label}) for arm, (label, colour) in ARMS.items()]
    with picture(path, 2, 2, figsize=(12.5, 8.5), layout="constrained") as axes:
        for axis, (title, key) in zip(axes.flat, shown.items(), strict=False):
            bands(axis, title, metrics[key], looks)
        for values, line in ((accuracies(metrics), "-"), (pass_at_8, "--")):
            lines = [(own, {**look, "linestyle": line}) for own, look in looks]
            bands(axes[1, 1], "accuracy (lines) and pass@8 (dashes)", values, lines)
        axes[0, 0].legend(fontsize=9, loc="lower right")


if __name__ == "__main__":
    main()
