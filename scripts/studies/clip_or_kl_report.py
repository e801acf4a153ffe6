"""Table and picture of the runs of clip_or_kl.sh: a KL in place of the clip, and the hard clip's bounds.

python scripts/studies/clip_or_kl_report.py docs/results/clip_or_kl OUT

Reads the three files that compact.py wrote; writes runs.md and clip_or_kl.png into OUT. Only seeds that are finished
for all losses are used. The outcome is the accuracy after 12 batches.
"""

from pathlib import Path

import pandas
from report import (
    SCORE,
    bands,
    complete_seeds,
    difference,
    digits,
    error_of_mean,
    load,
    markdown,
    name_rows,
    picture,
    points,
    write,
)

ACCURACY = "accuracy"
BASE = "rpg_style"
ARMS = {  # directories of clip_or_kl.sh: label and colour
    BASE: ("RPG-Style (0.2, 0.28)", "#08519c"),
    "ufkl_0.1": ("UFKL 0.1, no clip", "#a1d99b"),
    "ufkl_0.3": ("UFKL 0.3, no clip", "#41ab5d"),
    "ufkl_1": ("UFKL 1, no clip", "#006d2c"),
    "urkl_0.1": ("URKL 0.1, no clip", "#fdae6b"),
    "urkl_0.3": ("URKL 0.3, no clip", "#f16913"),
    "urkl_1": ("URKL 1, no clip", "#a63603"),
    "hard_floor": ("hard clip, floor 0.8 alone", "#9467bd"),
    "hard_ceiling": ("hard clip, ceiling 1.28 alone", "#d4a6f0"),
    "cispo": ("CISPO (0, 5)", "#d6a400"),
    "dppo": ("DPPO-TV (0.15)", "#5c6bc0"),
    "sapo": ("SAPO (1, 1.05)", "#ad1457"),
}
UFKL, URKL = ([arm for arm in ARMS if arm.startswith(divergence)] for divergence in ("ufkl", "urkl"))
MORE = {  # contrasts beside those to RPG-Style Clip: minuend, subtrahend
    "UFKL minus URKL, three betas": (UFKL, URKL),
    "UFKL, beta 1 minus 0.1": (UFKL[2:], UFKL[:1]),
    "URKL, beta 1 minus 0.1": (URKL[2:], URKL[:1]),
    "hard clip, floor alone minus ceiling alone": (["hard_floor"], ["hard_ceiling"]),
}
COLUMNS = {ACCURACY: 3, SCORE: 3, "entropy": 2, "largest KL": 3, "lowest ess": 2, "clipped": 3}


def main() -> None:
    """Write runs.md and clip_or_kl.png."""
    runs, metrics, out = load(ACCURACY)
    runs = complete_seeds(runs, ARMS)
    write(out / "runs.md", *table(runs))
    draw(runs, metrics, out / "clip_or_kl.png")


def table(runs: pandas.DataFrame) -> list[str]:
    """Return Markdown: means by arm, and differences blocked by seed."""
    means = runs.groupby("arm")[list(COLUMNS)].mean()
    means["largest KL"] = runs.groupby("arm")["largest KL"].max()
    means["lowest ess"] = runs.groupby("arm")["lowest ess"].min()
    rows = [[label, *digits(means.loc[arm], COLUMNS)] for arm, (label, _) in ARMS.items()]
    contrasts = {f"{ARMS[arm][0]} minus {ARMS[BASE][0]}": ([arm], [BASE]) for arm in ARMS if arm != BASE} | MORE
    differences = [
        [name, *(cell for outcome in (ACCURACY, SCORE) for cell in difference(runs, "arm", *sides, outcome).cells())]
        for name, sides in contrasts.items()
    ]
    summary = (
        f"{len(runs)} runs, {runs.seed.nunique()} seeds of each loss. Means, but the largest KL(mu, pi_theta) of a "
        "batch and the lowest effective sample size of all runs; clipped: the median share of tokens."
    )
    explained = "Each difference is blocked by seed, ± one standard error from the residual of loss and seed effects."
    head = ["difference", ACCURACY, "90 % power", SCORE, "90 % power"]
    return ["# A KL in place of the clip", summary, markdown(["loss", *COLUMNS], rows), explained,
            markdown(head, differences)]  # fmt: skip


def draw(runs: pandas.DataFrame, metrics: pandas.DataFrame, path: Path) -> None:
    """Draw the accuracy of each run by loss, and the training score by batch (means with bands of one error)."""
    with picture(path, 1, 2, figsize=(12.5, 5)) as axes:
        reach = error_of_mean(runs, ACCURACY).reach
        for place, (arm, (_, colour)) in enumerate(ARMS.items()):
            points(axes[0], runs[ACCURACY][runs.arm == arm], place, reach, colour)
        name_rows(axes[0], [label for label, _ in ARMS.values()])
        axes[0].axvline(runs[ACCURACY][runs.arm == BASE].mean(), color=ARMS[BASE][1], linewidth=0.8)
        axes[0].set_title("accuracy after 12 batches (95 % intervals)", loc="left")
        looks = [(runs.index[runs.arm == arm], {"color": colour}) for arm, (_, colour) in ARMS.items()]
        bands(axes[1], "training score", metrics["critic/score/mean"], looks)


if __name__ == "__main__":
    main()
