"""Rollouts four batches ahead: which policy is pi_old, with and without RPG-Style Clip (expectations.md, 2)?

Primary outcome of a run: mean accuracy of its last two validations. Arms and contrasts without runs are left out.
"""

import pandas

from scripts.studies.common import SCORE, complete_seeds, difference, load, markdown

OUTCOME = "accuracy of the last two validations"
KL = "training/off_policy/kl"
ARMS = {  # directories of the runs: pi_old, clip
    f"{name}-{choice}": (choice, clip)
    for name, clip in (("clip", "(0.2, 0.28)"), ("none", "none"))
    for choice in ("recomputed", "decoupled", "behavior")
}
CONTRASTS = (  # plus, minus
    ("clip-decoupled", "clip-recomputed"),
    ("clip-behavior", "clip-recomputed"),
    ("none-decoupled", "none-recomputed"),
    ("none-behavior", "none-recomputed"),
    ("none-decoupled", "clip-decoupled"),
)


def runs_of_study() -> pandas.DataFrame:
    """Return the runs with the primary outcome and their KL of what sampled to what is trained."""
    runs, metrics = load("ahead")
    runs[OUTCOME] = metrics.accuracy.dropna().groupby("run").tail(2).groupby("run").mean()
    runs[KL] = metrics[KL].groupby("run").mean()
    return runs


def tables() -> list[str]:
    """Return Markdown: means by arm, and contrasts paired by seed."""
    runs = runs_of_study()
    rows, contrasts = [], []
    for arm, labels in ARMS.items():
        if len(of_arm := runs[runs.arm == arm]):
            means = (f"{of_arm[key].mean():.3f} ± {of_arm[key].sem():.3f}" for key in (OUTCOME, SCORE, KL))
            rows.append([*labels, *means, str(len(of_arm))])
    for plus, minus in CONTRASTS:
        if {plus, minus} <= {*runs.arm}:
            pairs = complete_seeds(runs, (plus, minus))
            name = " less ".join(f"{choice}, clip {clip}" for choice, clip in (ARMS[plus], ARMS[minus]))
            effect = difference(pairs, "arm", [plus], [minus], OUTCOME)
            contrasts.append([name, *effect.cells(), str(pairs.seed.nunique())])
    return [
        markdown(["pi_old", "clip", OUTCOME, SCORE, "KL(sampling, current)", "seeds"], rows, 2),
        markdown(["contrast", OUTCOME, "90 % power", "seeds"], contrasts),
    ]
