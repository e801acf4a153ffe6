"""Table and picture of the runs of stability.sh: eight losses at too large a learning rate.

python scripts/studies/stability_report.py docs/results/stability OUT

Reads the three files that compact.py wrote; writes runs.md and stability.png into OUT. Only seeds that are finished
for all eight losses are used. The outcome of a run is the mean training score of its last three batches minus that
of batches 5 to 7.
"""

from pathlib import Path

import pandas
from report import SCORE, bands, complete_seeds, error_of_mean, load, markdown, name_rows, picture, points, write

OUTCOME, LARGEST, LOWEST, ACCURACY = "end less halfway", "largest KL", "lowest ess", "accuracy"
BASE = "rpg_style_0.2_0.28"
ARMS = {  # directories of stability.sh: label and colour
    "unclipped": ("no clip", "#d62728"),
    "hard_0.2_0.28": ("hard clip (0.2, 0.28)", "#9467bd"),
    BASE: ("RPG-Style (0.2, 0.28)", "#08519c"),
    "rpg_style_0.1_0.1": ("RPG-Style (0.1, 0.1)", "#6baed6"),
    "urkl_0.03": ("URKL 0.03, no clip", "#fd8d3c"),
    "ufkl_0.03": ("UFKL 0.03, no clip", "#2ca02c"),
    "urkl_0.03_clipped": ("URKL 0.03, RPG-Style (0.2, 0.28)", "#8c564b"),
    "grpo": ("GRPO (0.2, 0.28)", "#555555"),
}


def main() -> None:
    """Write runs.md and stability.png."""
    runs, metrics, out = load(ACCURACY)
    score = metrics["critic/score/mean"].unstack("step")
    runs[OUTCOME] = score[[10, 11, 12]].mean(axis=1) - score[[5, 6, 7]].mean(axis=1)
    runs = complete_seeds(runs, ARMS)
    write(out / "runs.md", *table(runs))
    draw(runs, metrics, out / "stability.png")


def table(runs: pandas.DataFrame) -> list[str]:
    """Return Markdown: means by arm, and differences from RPG-Style Clip (0.2, 0.28) blocked by seed."""
    means = runs.groupby("arm").mean(numeric_only=True)
    errors = {outcome: error_of_mean(runs, outcome) for outcome in (OUTCOME, SCORE, ACCURACY)}
    rows, differences = [], []
    for arm, (label, _) in ARMS.items():
        mean, own = means.loc[arm], runs[runs.arm == arm]
        rows.append([label, f"{mean[OUTCOME]:+.3f} ± {errors[OUTCOME].error:.3f}", f"{mean[SCORE]:.3f}",
                     f"{mean[ACCURACY]:.3f}", f"{own[LARGEST].max():.2g}", f"{own[LOWEST].min():.2f}",
                     f"{own[LOWEST].median():.2f}"])  # fmt: skip
        if arm != BASE:
            shown = [f"{mean[key] - means.loc[BASE][key]:+.3f} ± {2**0.5 * errors[key].error:.3f}" for key in errors]
            differences.append([label, *shown])
    differences.append(["90 % power", *(f"{2**0.5 * error.detectable:.3f}" for error in errors.values())])
    summary = (
        f"{len(runs)} runs, {runs.seed.nunique()} seeds of each loss. ± is one standard error of a mean, from the "
        "residual of loss and seed effects."
    )
    head = ["loss", OUTCOME, SCORE, ACCURACY, LARGEST, LOWEST, "median lowest ess"]
    minus = [f"minus {ARMS[BASE][0]}", *errors]
    return ["# The stability runs", summary, markdown(head, rows), markdown(minus, differences)]


def draw(runs: pandas.DataFrame, metrics: pandas.DataFrame, path: Path) -> None:
    """Draw training score and effective sample size by batch (means with bands of one error); below, two outcomes."""
    looks = [(runs.index[runs.arm == arm], {"color": colour}) for arm, (_, colour) in ARMS.items()]
    with picture(path, 2, 2, figsize=(12.5, 8)) as axes:
        bands(axes[0, 0], "training score", metrics["critic/score/mean"], looks)
        bands(axes[0, 1], "effective sample size", metrics["training/off_policy/ess"], looks)
        titles = (f"training score, {OUTCOME} (95 % intervals)", "accuracy after 12 batches (95 % intervals)")
        for axis, title, outcome in zip(axes[1], titles, (OUTCOME, ACCURACY), strict=True):
            reach = error_of_mean(runs, outcome).reach
            for place, (own, look) in enumerate(looks):
                points(axis, runs[outcome][own], place, reach, look["color"])
            name_rows(axis, [label for label, _ in ARMS.values()])
            axis.set_title(title, loc="left")
        axes[1, 1].set_yticklabels([])
        axes[1, 0].axvline(0, color="black", linewidth=0.8)


if __name__ == "__main__":
    main()
