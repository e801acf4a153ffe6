"""The studies on chain_sum (runs.sh): means by arm, and contrasts blocked by seed.

An arm is the directory of a run without its seed. Scores are means over batches, unless said otherwise.
"""

from collections.abc import Iterable, Mapping, Sequence
from itertools import product

import numpy
import pandas

from scripts.studies.common import ACCURACY, SCORE, complete_seeds, difference, load, markdown, untrained_accuracy

Contrast = tuple[str, Sequence[str], Sequence[str]]  # name, cells with a positive sign, cells with a negative sign

DIVERGENCES = ("FKL", "RKL", "UFKL", "URKL")
EIGHT = {f"{form}-{d}" for form in ("RPG", "RPG-REINFORCE") for d in DIVERGENCES}  # one method (lab/identity.py)
ROWS, DIVIDED, UNDIVIDED = "eight rows", "eight rows, divided", "GRPO, not divided"
FIRST, LATER = (1, 2, 3), (4, 5, 6, 7, 8, 9)  # seeds; the first chose the contrasts
OF_FIRST: tuple[Contrast, ...] = (("REINFORCE++-Baseline minus eight rows", ["REINFORCE++-Baseline"], [ROWS]),)
OF_STUDY: tuple[Contrast, ...] = (
    ("GRPO minus eight rows", ["GRPO"], [ROWS]),
    ("GRPO, not divided, minus eight rows", [UNDIVIDED], [ROWS]),
    ("REINFORCE++ minus eight rows", ["REINFORCE++"], [ROWS]),
    ("divided minus not divided", ["GRPO", DIVIDED], [UNDIVIDED, ROWS]),
)

OF_PENALTY = {  # arm: label
    "without/grpo_cpu": "GRPO",
    "with/grpo_cpu": "GRPO with the penalty",
    "without/rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28": "RPG-REINFORCE-URKL",
}

PROMPTS = 32  # of a batch of `factors`
DROPPED = [f"training/filter_groups/{key}" for key in ("evicted_samples", "discarded_surplus_samples")]
AT_PROMPTS = "the same per prompt"
CELLS = ["-".join(cell) for cell in product(("rpg", "dapo"), ("divided", "mean"), ("true", "false"))]

BASE = "rpg_style_0.2_0.28"
OF_STABILITY = {  # arm: label
    "unclipped": "no clip",
    "hard_0.2_0.28": "hard clip (0.2, 0.28)",
    BASE: "RPG-Style (0.2, 0.28)",
    "rpg_style_0.1_0.1": "RPG-Style (0.1, 0.1)",
    "urkl_0.03": "URKL 0.03, no clip",
    "ufkl_0.03": "UFKL 0.03, no clip",
    "urkl_0.03_clipped": "URKL 0.03, RPG-Style (0.2, 0.28)",
    "grpo": "GRPO (0.2, 0.28)",
}
END = "end less halfway"  # mean score of the last three batches less that of batches 5 to 7

LAST_TWO = "accuracy of the last two validations"
OF_AHEAD = {  # arm: label
    f"{name}-{choice}": f"{choice}, clip {clip}"
    for name, clip in (("clip", "(0.2, 0.28)"), ("none", "none"))
    for choice in ("recomputed", "decoupled", "behavior")
}
CLIPPED_PAIRS = (  # plus, minus; with one error of the three arms, whose runs deviate alike
    ("clip-decoupled", "clip-recomputed"),
    ("clip-behavior", "clip-recomputed"),
)
PAIRS = (  # with the error of the pairs alone, since recomputed without a clip deviates most
    ("none-decoupled", "none-recomputed"),
    ("none-behavior", "none-recomputed"),
    ("none-decoupled", "clip-decoupled"),
)


def study() -> list[str]:
    """The methods of table 8 with 16 optimizer steps a batch: means of three seeds, contrasts.

    The contrasts' score excludes DAPO, whose filter logs only kept groups. Scores contain the overlong penalty, which
    GRPO's runs do not have.
    """
    runs, _ = load("study")
    steps = runs["data.train_batch_size"] // runs["actor_rollout_ref.actor.ppo_mini_batch_size"]
    runs = runs[~runs.index.str.startswith("lr_") & (steps == 16)].copy()  # lr_: these chose the learning rate
    divided = (runs["algorithm.adv_estimator"] == "grpo") & runs["algorithm.norm_adv_by_std_in_grpo"].astype(bool)
    row, grpo = runs.method.isin(EIGHT), runs.method == "GRPO"
    runs["cell"] = runs.method.mask(row, ROWS).mask(row & divided, DIVIDED).mask(grpo & ~divided, UNDIVIDED)
    of_table = runs[runs.index.str.startswith("steps_")].groupby("method")[[SCORE, ACCURACY]].mean()
    rows = [[str(method), f"{row[SCORE]:.3f}", f"{row[ACCURACY]:.3f}"] for method, row in of_table.iterrows()]
    compared = runs[runs.method != "DAPO"]
    first, later = compared[compared.seed.isin(FIRST)], compared[compared.seed.isin(LATER)]
    return [
        markdown(["method", SCORE, ACCURACY], rows),
        contrasts(first, OF_FIRST, (SCORE, ACCURACY), "cell"),
        contrasts(later, OF_STUDY, (SCORE, ACCURACY), "cell"),
    ]


def penalty() -> list[str]:
    """GRPO with and without the overlong penalty, and a row of the eight, which has it (expectations.md, 7)."""
    runs, _ = load("penalty")
    plain, penalised, row = OF_PENALTY
    pairs = [(penalised, plain), (penalised, row), (plain, row)]
    return [
        arm_means(runs, OF_PENALTY, (SCORE, ACCURACY)),
        contrasts(runs, named(pairs, OF_PENALTY), (SCORE, ACCURACY), paired=True),
    ]


def factors() -> list[str]:
    """Filter, advantages and loss in every combination; the score is before filtering."""
    runs, metrics = load("factors")
    score = metrics["critic/score_before_filtering/mean"].fillna(metrics["critic/score/mean"])
    sampled = PROMPTS + metrics[DROPPED].fillna(0).sum(axis=1)
    runs[SCORE] = score.groupby("run").mean()
    runs[AT_PROMPTS] = pandas.Series({run: per_prompt(score[run], sampled[run]) for run in runs.index})

    def cells(level: str) -> list[str]:
        return [cell for cell in CELLS if level in cell.split("-")]

    effects = (
        ("RPG-REINFORCE-URKL minus DAPO", cells("rpg"), cells("dapo")),
        ("filter on minus off", cells("true"), cells("false")),
        ("divided minus not divided", cells("divided"), cells("mean")),
    )
    halved = complete_seeds(runs, [f"{cell}{rate}" for cell in cells("true") for rate in ("", "-half")])
    slow, whole = ["rpg-divided-true-half", "rpg-mean-true-half"], ["dapo-divided-true", "dapo-mean-true"]
    half = ("RPG-REINFORCE-URKL at half the rate minus DAPO", slow, whole)
    return [
        contrasts(complete_seeds(runs, CELLS), effects, (SCORE, AT_PROMPTS, ACCURACY)),
        contrasts(halved, [half], (SCORE, ACCURACY)),
    ]


def per_prompt(score: pandas.Series, sampled: pandas.Series) -> float:
    """Return the mean score after 32, 64, ... sampled prompts, interpolated between batches.

    The largest number of prompts is the total of an unfiltered run.
    """
    return numpy.interp(PROMPTS * numpy.arange(1, len(score) + 1), sampled.cumsum(), score).mean()


def stability() -> list[str]:
    """Eight losses at twice the study's learning rate."""
    runs, metrics = load("stability")
    score = metrics["critic/score/mean"].unstack("step")
    runs[END] = score[[10, 11, 12]].mean(axis=1) - score[[5, 6, 7]].mean(axis=1)
    runs = complete_seeds(runs, OF_STABILITY)
    untrained = score.loc[runs.index, 1].mean()  # of the first batches, which the untrained model samples
    means = runs.groupby("arm")[[SCORE, ACCURACY]].mean()
    rows = [["untrained model", f"{untrained:.3f}", f"{untrained_accuracy():.3f}", ""]]
    primary = []
    for arm, label in OF_STABILITY.items():
        less, end = (difference(runs, "arm", [arm], [BASE], outcome) for outcome in (ACCURACY, END))
        rows.append([label, *(f"{means[key][arm]:.3f}" for key in means), "" if arm == BASE else str(less)])
        if arm != BASE:
            primary.append([label, str(end)])
    less = "less RPG-Style (0.2, 0.28)"
    return [markdown(["loss", SCORE, ACCURACY, less], rows), markdown([END, less], primary)]


def ahead() -> list[str]:
    """Rollouts four batches ahead: which policy is pi_old, with and without RPG-Style Clip (expectations.md, 2)."""
    runs, metrics = load("ahead")
    runs[LAST_TWO] = metrics.accuracy.dropna().groupby("run").tail(2).groupby("run").mean()
    return [
        arm_means(runs, OF_AHEAD, (LAST_TWO, SCORE)),
        contrasts(runs[runs.arm.str.startswith("clip-")], named(CLIPPED_PAIRS, OF_AHEAD), (LAST_TWO,)),
        contrasts(runs, named(PAIRS, OF_AHEAD), (LAST_TWO,), paired=True),
    ]


def arm_means(runs: pandas.DataFrame, labels: Mapping[str, str], outcomes: Sequence[str]) -> str:
    """Return a Markdown table: the mean of each arm's runs ± its standard error."""
    rows = []
    for arm, label in labels.items():
        of_arm = runs[runs.arm == arm]
        values = (f"{of_arm[key].mean():.3f} ± {of_arm[key].sem():.3f}" for key in outcomes)
        rows.append([label, *values, str(len(of_arm))])
    return markdown(["arm", *outcomes, "seeds"], rows)


def named(pairs: Iterable[tuple[str, str]], labels: Mapping[str, str]) -> list[Contrast]:
    """Return the contrasts of pairs of arms: the first less the second."""
    return [(f"{labels[plus]} less {labels[minus]}", [plus], [minus]) for plus, minus in pairs]


def contrasts(
    runs: pandas.DataFrame, rows: Iterable[Contrast], outcomes: Sequence[str], by: str = "arm", paired: bool = False
) -> str:
    """Return a Markdown table: each contrast of the cells of column `by`, ± its standard error.

    paired: from the runs of the contrast's arms alone, of the seeds that are finished in both.
    """
    lines = []
    for name, plus, minus in rows:
        chosen = complete_seeds(runs, [*plus, *minus]) if paired else runs
        effects = (difference(chosen, by, plus, minus, outcome) for outcome in outcomes)
        lines.append([name, *map(str, effects), str(chosen.seed.nunique())])
    return markdown(["contrast", *outcomes, "seeds"], lines)
