"""Tables, contrasts with standard errors and pictures of the runs of study.sh.

python scripts/studies/study_report.py docs/results/study OUT

Reads the three files that compact.py wrote; writes methods.md, methods.png, contrasts.png and curves.png into OUT.
A run has two outcomes: its mean training score over all batches and its last held-out accuracy.
"""

from pathlib import Path

import pandas
from contrasts import CONFOUNDED, CONTRASTS, DIVIDED, EIGHT, ROWS, UNDIVIDED, estimate
from report import SCORE, accuracies, bands, digits, load, markdown, name_rows, picture, points, write

from rpg.registry.labels import BASELINES, LOOKS, METHODS

LAST = "last accuracy"
OUTCOMES = (SCORE, LAST)
START = 0.224  # untrained model: mean of 0.215 and 0.232, step 0 of the two runs that chose the learning rate


def main() -> None:
    """Write methods.md and the pictures."""
    runs, metrics, out = load(LAST)
    place(runs)
    runs["gradient norm"] = metrics.groupby("run")["actor/grad_norm"].median()
    learned = runs[runs.steps > 0]
    by_steps = learned[learned.folder.str.startswith("steps_")]
    write(
        out / "methods.md",
        *("# The study's runs", *methods_table(by_steps), *contrasts_text(learned), *exchanged(learned)),
        *(*repeated_seeds(learned), *rates(runs, accuracies(metrics))),
    )
    draw_methods(by_steps, out / "methods.png")
    draw_contrasts(learned, out / "contrasts.png")
    draw_curves(learned, metrics, out / "curves.png")


def place(runs: pandas.DataFrame) -> None:
    """Add the run's folder, its optimizer steps per batch (0 for runs that chose the learning rate) and its cell."""
    runs["folder"] = runs.index.str.split("/").str[0]
    steps = runs["data.train_batch_size"] / runs["actor_rollout_ref.actor.ppo_mini_batch_size"]
    runs["steps"] = steps.astype(int).where(~runs.folder.str.startswith("lr_"), 0)
    divided = (runs["algorithm.adv_estimator"] == "grpo") & runs["algorithm.norm_adv_by_std_in_grpo"].astype(bool)
    row, grpo = runs.method.isin(EIGHT), runs.method == "GRPO"
    runs["cell"] = runs.method.mask(row, ROWS).mask(row & divided, DIVIDED).mask(grpo & ~divided, UNDIVIDED)


def methods_table(runs: pandas.DataFrame) -> list[str]:
    """Return Markdown: one row per method with means over its seeds; last accuracy by number of optimizer steps."""
    accuracy = runs.pivot_table(index="method", columns="steps", values=LAST)
    columns = {SCORE: 3, "entropy": 2, "tokens": 1, "largest KL": 3, "lowest ess": 3, "clipped": 3}
    means = runs[runs.steps == 16].groupby("method")[list(columns)].mean()
    rows = []
    for method in (method for method in METHODS if method in accuracy.index):
        by_steps = ["" if pandas.isna(value) else f"{value:.3f}" for value in accuracy.loc[method]]
        rows.append([method, *by_steps, *digits(means.loc[method], columns)])
    head = ["method", *(f"accuracy, {steps} steps" for steps in accuracy), *columns]
    title = "Last accuracy by optimizer steps per batch; the other columns are of 16 steps. Means of three seeds."
    return [title, markdown(head, rows)]


OTHERWISE = (
    "DAPO alone filters. GRPO lacks overlong shaping, and has the upper clip 0.2 and a k3 of 1e-3 to a fixed "
    "reference; the eight rows have 0.28. 2, 16 and 64 steps per batch are 24, 192 and 384 optimizer steps."
)


def contrasts_text(runs: pandas.DataFrame) -> list[str]:
    """Return Markdown: all contrasts."""
    text = [
        "## Contrasts",
        "Differences ± standard error, blocked by seed. 90 % power: the true difference that nine of ten such studies "
        "would find. 16 steps per batch unless stated. The training score of rows with other reward shaping or a "
        "filter is not comparable. The last accuracy is over 512 problems.",
    ]
    for title, contrasts in CONTRASTS.items():
        rows = []
        for contrast in contrasts:
            found = [estimate(runs, title, contrast, outcome) for outcome in OUTCOMES]
            rows.append([contrast.name, *(cell for one in found for cell in (one.cells() if one else ["", ""]))])
        table = markdown(["contrast", SCORE, "90 % power", LAST, "90 % power"], rows)
        text += [f"### {title}", *([OTHERWISE] if title == CONFOUNDED else []), table]
    return text


def exchanged(runs: pandas.DataFrame) -> list[str]:
    """Return Markdown: both outcomes with and without division, seeds 1 to 9."""
    rows, columns = [], {SCORE: 3, LAST: 3, "gradient norm": 3}
    for loss in ("GRPO", "RPG-REINFORCE-URKL"):
        own = runs[(runs.steps == 16) & (runs.method == loss)]
        for name, cells in (("divided", ("GRPO", DIVIDED)), ("not divided", (ROWS, UNDIVIDED))):
            chosen = own[own.cell.isin(cells)]
            rows.append([loss, name, str(len(chosen)), *digits(chosen[list(columns)].mean(), columns)])
    table = markdown(["loss", "advantages", "runs", *columns], rows, texts=2)
    return ["## Division by the group's standard deviation, seeds 1 to 9", table]


def repeated_seeds(runs: pandas.DataFrame) -> list[str]:
    """Return Markdown: standard deviation between runs of one method and seed, and of all runs of the method."""
    rows = []
    for method, own in runs[runs.folder.isin(("advantages_own", "advantages_twice"))].groupby("method"):
        for outcome in OUTCOMES:
            within = own.groupby("seed")[outcome].var().mean() ** 0.5
            rows.append([str(method), outcome, str(len(own)), f"{within:.3f}", f"{own[outcome].std():.3f}"])
    head = ["method", "outcome", "runs", "standard deviation within a seed", "of all"]
    return ["## Repeated seeds", markdown(head, rows, texts=2)]


def rates(runs: pandas.DataFrame, accuracy: pandas.Series) -> list[str]:
    """Return Markdown: the runs that chose the learning rate."""
    rows, rate = [], "actor_rollout_ref.actor.optim.lr"
    for name, run in runs[runs.steps == 0].sort_values([rate, "method"]).iterrows():
        shown = ", ".join(f"{step}: {value:.3f}" for step, value in accuracy[name].items())
        rows.append([f"{run[rate]:g}", run.method, shown, f"{run['lowest ess']:.2f}"])
    head = ["rate", "method", "accuracy at batch", "lowest ess"]
    return ["## Learning rate, seed 11", markdown(head, rows, texts=3)]


def draw_methods(runs: pandas.DataFrame, path: Path) -> None:
    """Draw one column per number of optimizer steps, one row per method: seeds, mean and standard error."""
    methods = [method for method in METHODS if (runs.method == method).any()]
    size = {"figsize": (12.5, 0.9 + 0.34 * len(methods)), "sharey": True, "sharex": True}
    with picture(path, 1, 3, **size) as axes:
        for axis, (steps, group) in zip(axes, runs.groupby("steps"), strict=True):
            axis.axvline(START, color="#999999", linewidth=1, linestyle=":")
            axis.annotate("before\ntraining", (START, 0), (4, 0), textcoords="offset points", va="center",
                          color="#666666", size=9)  # fmt: skip
            axis.axhline(len(BASELINES) - 0.5, color="#bbbbbb", linewidth=0.8)
            for row, method in enumerate(methods):
                values = group[LAST][group.method == method]
                if not values.empty:
                    points(axis, values, row, values.sem(), LOOKS[method].colour)
            axis.set_title(f"{steps} optimizer steps per batch", loc="left")
            axis.set_xlabel("held-out accuracy after 384 prompts")
        name_rows(axes[0], methods)


def draw_contrasts(runs: pandas.DataFrame, path: Path) -> None:
    """Draw a forest plot: differences with 95 % intervals, and the range below 90 % power."""
    rows = [row for title, contrasts in CONTRASTS.items() for row in ((title, None), *((title, c) for c in contrasts))]
    with picture(path, 1, 2, figsize=(12.5, 0.9 + 0.34 * len(rows)), sharey=True) as axes:
        for axis, outcome in zip(axes, OUTCOMES, strict=True):
            for row, (title, contrast) in enumerate(rows):
                if contrast and (found := estimate(runs, title, contrast, outcome)):
                    reach, fill = found.detectable, "white" if title == CONFOUNDED else "#08519c"
                    axis.fill_betweenx([row - 0.36, row + 0.36], -reach, reach, color="#e4e4e4", linewidth=0)
                    axis.errorbar(found.value, row, xerr=found.reach, fmt="o", color="#08519c", capsize=3,
                                  linewidth=1.6, markerfacecolor=fill)  # fmt: skip
            axis.axvline(0, color="black", linewidth=0.8)
            axis.set_title(f"difference of the {outcome}", loc="left")
            axis.locator_params(axis="x", nbins=6)
        name_rows(axes[0], [contrast.name if contrast else f"{title}:" for title, contrast in rows])
        for label, (_, contrast) in zip(axes[0].get_yticklabels(), rows, strict=True):
            label.set_fontweight("normal" if contrast else "bold")
        axes[0].set_ylim(len(rows) - 0.4, -0.6)
        explained = "bar: 95 % interval; grey: below 90 % power; hollow: confounded"
        axes[0].figure.text(0.99, 0.01, explained, ha="right", size=9)
        axes[0].figure.tight_layout(rect=(0, 0.02, 1, 1))


def draw_curves(runs: pandas.DataFrame, metrics: pandas.DataFrame, path: Path) -> None:
    """Draw curves by batch, 16 steps per batch: means of runs with equal shaping and no filter, bands of one error."""
    shown = {
        "training score": "critic/score/mean",
        "entropy of a token, nats": "actor/entropy",
        "tokens per response": "response_length/mean",
    }
    colours = {ROWS: "#d62728", DIVIDED: "#08519c", "REINFORCE++": "#b5a642", "REINFORCE++-Baseline": "#8c564b"}
    looks = []
    for cell, colour in colours.items():
        chosen = runs.index[(runs.steps == 16) & (runs.cell == cell)]
        looks.append((chosen, {"color": colour, "label": f"{cell} ({len(chosen)} runs)"}))
    with picture(path, 1, len(shown), figsize=(12.5, 4)) as axes:
        for axis, (title, key) in zip(axes, shown.items(), strict=True):
            bands(axis, title, metrics[key], looks, alpha=0.2)
        axes[0].legend(fontsize=9)


if __name__ == "__main__":
    main()
