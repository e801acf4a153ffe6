"""Table and picture of the runs of kl_scope.sh: the KL per token, of responses, and in the reward.

python scripts/studies/kl_scope_report.py docs/results/kl_scope OUT

Reads the files of compact.py and kl_scope_measure.py; writes runs.md and kl_scope.png into OUT. Only seeds that are
finished in all cells are used. J is the score less beta times the KL of responses.
"""

import sys
from itertools import product
from pathlib import Path

import pandas
from report import complete_seeds, difference, load, markdown, picture, write

ARMS = {  # directories of kl_scope.sh: label and colour
    "token": ("per token", "#d62728"),
    "response": ("response", "#08519c"),
    "reward": ("k1 in the reward", "#2ca02c"),
}
BETAS = {"0.1": "o", "0.3": "s"}  # and markers
CELLS = [f"{arm}_{beta}" for arm, beta in product(ARMS, BETAS)]
KL = "KL (nats)"
OUTCOMES = {"J": 3, "score": 3, KL: 2}
CONTRASTS = (("response", "token"), ("reward", "response"), ("reward", "token"))


def main() -> None:
    """Write runs.md and kl_scope.png."""
    runs, _, out = load("validation")
    responses = pandas.read_csv(Path(sys.argv[1]) / "responses.csv")
    runs = complete_seeds(runs.join(responses.set_index("run"), how="inner"), CELLS)
    runs["beta"] = runs.arm.str.rpartition("_")[2]
    runs = runs.rename(columns={"kl": KL})
    runs["J"] = runs.score - runs.beta.astype(float) * runs[KL]
    write(out / "runs.md", *table(runs))
    draw(runs, out / "kl_scope.png")


def table(runs: pandas.DataFrame) -> list[str]:
    """Return Markdown: means by cell, and differences blocked by seed."""
    means = runs.groupby("arm").mean(numeric_only=True)
    cells = [
        [beta, ARMS[arm][0], *(f"{means.loc[f'{arm}_{beta}', key]:.{places}f}" for key, places in shown().items())]
        for beta, arm in product(BETAS, ARMS)
    ]
    rows = []
    for plus, minus in CONTRASTS:
        for betas in (["0.1"], ["0.3"], ["0.1", "0.3"]):
            own = runs[runs.beta.isin(betas)]
            sides = [[f"{arm}_{beta}" for beta in betas] for arm in (plus, minus)]
            estimates = [difference(own, "arm", *sides, outcome) for outcome in OUTCOMES]
            name = f"{ARMS[plus][0]} minus {ARMS[minus][0]}"
            rows.append([name, " and ".join(betas), *(cell for one in estimates for cell in one.cells())])
    summary = (
        f"{len(runs)} runs, {runs.seed.nunique()} seeds of each cell. Score, accuracy and KL are of 2,048 "
        "responses of the last checkpoint to the 512 test problems; J is the score less beta times the KL."
    )
    explained = "Each difference is blocked by seed, ± one standard error, from the runs of its beta or of both."
    head = ["difference", "beta", *(text for outcome in OUTCOMES for text in (outcome, "90 % power"))]
    return ["# The runs with a KL of responses", summary, markdown(["beta", "form", *shown()], cells, 2), explained,
            markdown(head, rows, 2)]  # fmt: skip


def shown() -> dict[str, int]:
    """Return the columns of the table of means with their decimals."""
    return {**OUTCOMES, "accuracy": 3, "entropy": 2, "tokens": 1, "clipped": 3}


def draw(runs: pandas.DataFrame, path: Path) -> None:
    """Draw each run's score by its KL, one colour an arm; lines join points of equal J."""
    with picture(path, 1, 2, figsize=(11, 4.6)) as axes:
        for axis, (beta, marker) in zip(axes, BETAS.items(), strict=True):
            for arm, (label, colour) in ARMS.items():
                own = runs[runs.arm == f"{arm}_{beta}"]
                axis.plot(own[KL], own.score, marker, color=colour, alpha=0.4, markersize=6)
                mean = {"color": colour, "markeredgecolor": "black", "label": f"{label}: J {own.J.mean():.3f}"}
                axis.plot(own[KL].mean(), own.score.mean(), marker, markersize=10, **mean)
            axis.set(xlim=axis.get_xlim(), ylim=axis.get_ylim())
            for level in range(-20, 21):
                axis.axline((0, level / 20), slope=float(beta), color="#cccccc", linewidth=0.7, zorder=0)
            axis.set_title(f"beta {beta} (grey: equal J, 0.05 apart)", loc="left")
            axis.set_xlabel("KL of responses to the reference (nats)")
            axis.legend(fontsize=9, loc="upper left")
        axes[0].set_ylabel("score")


if __name__ == "__main__":
    main()
