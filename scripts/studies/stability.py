"""Eight losses at twice the study's learning rate: which clip or KL keeps training stable?

Primary outcome of a run: mean training score of its last three batches minus that of batches 5 to 7.
"""

from pathlib import Path

import pandas

from scripts.studies.common import (
    ACCURACY,
    SCORE,
    UNTRAINED,
    Estimate,
    complete_seeds,
    first_score,
    fit,
    load,
    markdown,
    name_rows,
    picture,
    points,
    untrained_accuracy,
)

OUTCOME = "end less halfway"
BASE = "rpg_style_0.2_0.28"
ARMS = {  # directories of the runs: label and colour
    "unclipped": ("no clip", "#d62728"),
    "hard_0.2_0.28": ("hard clip (0.2, 0.28)", "#9467bd"),
    BASE: ("RPG-Style (0.2, 0.28)", "#08519c"),
    "rpg_style_0.1_0.1": ("RPG-Style (0.1, 0.1)", "#6baed6"),
    "urkl_0.03": ("URKL 0.03, no clip", "#fd8d3c"),
    "ufkl_0.03": ("UFKL 0.03, no clip", "#2ca02c"),
    "urkl_0.03_clipped": ("URKL 0.03, RPG-Style (0.2, 0.28)", "#8c564b"),
    "grpo": ("GRPO (0.2, 0.28)", "#555555"),
}


def runs_of_study() -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """Return runs with the primary outcome, and metrics; seeds that are finished for all losses."""
    runs, metrics = load("stability")
    score = metrics["critic/score/mean"].unstack("step")
    runs[OUTCOME] = score[[10, 11, 12]].mean(axis=1) - score[[5, 6, 7]].mean(axis=1)
    return complete_seeds(runs, ARMS), metrics


def error_of_mean(runs: pandas.DataFrame, outcome: str) -> Estimate:
    """Return the standard error of an arm's mean, from the residual of arm and seed effects."""
    _, _, _, variance, freedom = fit(runs, "arm", outcome)
    return Estimate(0.0, (variance / runs.seed.nunique()) ** 0.5, freedom)


def tables() -> list[str]:
    """Return Markdown: means by arm with accuracy and end less RPG-Style Clip's (0.2, 0.28), blocked by seed."""
    runs, metrics = runs_of_study()
    means = runs.groupby("arm").mean(numeric_only=True)
    errors = {outcome: error_of_mean(runs, outcome) for outcome in (OUTCOME, ACCURACY)}
    untrained = first_score(metrics["critic/score/mean"], runs.index)
    rows = [[UNTRAINED, f"{untrained:.3f}", f"{untrained_accuracy():.3f}", "", ""]]
    for arm, (label, _) in ARMS.items():
        less = [f"{means[key][arm] - means[key][BASE]:+.3f} ± {2**0.5 * errors[key].error:.3f}" for key in errors]
        shown = [f"{means[SCORE][arm]:.3f}", f"{means[ACCURACY][arm]:.3f}", *(less[::-1] if arm != BASE else ["", ""])]
        rows.append([label, *shown])
    power = {outcome: f"{2**0.5 * error.detectable:.3f}" for outcome, error in errors.items()}
    rows.append(["90 % power", "", "", power[ACCURACY], power[OUTCOME]])
    return [markdown(["loss", SCORE, ACCURACY, f"{ACCURACY}, less RPG-Style's", f"{OUTCOME}, less RPG-Style's"], rows)]


def draw(out: Path) -> None:
    """Draw stability.png: training score by batch (means with bands of one error), and accuracy by run."""
    runs, metrics = runs_of_study()
    score = metrics["critic/score/mean"].unstack("run")
    reach = error_of_mean(runs, ACCURACY).reach
    with picture(out / "stability.png", 1, 2, figsize=(12.5, 4.2)) as (left, right):
        for place, (arm, (_, colour)) in enumerate(ARMS.items()):
            of_arm = score[runs.index[runs.arm == arm]]
            mean, error = of_arm.mean(axis=1), of_arm.sem(axis=1)
            left.plot(mean.index, mean, color=colour)
            left.fill_between(mean.index, mean - error, mean + error, color=colour, alpha=0.12, linewidth=0)
            points(right, runs[ACCURACY][runs.arm == arm], place, reach, colour)
        left.set_title("training score", loc="left")
        left.set_xlabel("batch")
        right.axvline(untrained_accuracy(), color="#999999", linewidth=1, linestyle=":")
        name_rows(right, [label for label, _ in ARMS.values()])
        right.set_title("accuracy after 12 batches (95 % intervals)", loc="left")
        right.set_xlabel("dotted: before training")
