"""Tables, contrasts with standard errors and pictures of the runs of study.sh.

python scripts/studies/study_report.py docs/results/study OUT

Reads the three files that compact.py wrote; writes methods.md, methods.png, contrasts.png and curves.png into OUT.
A run has two outcomes: its mean training score over all batches and its last held-out accuracy.
"""

from pathlib import Path

import pandas
from contrasts import CONTRASTS, DIVIDED, EIGHT, ROWS, UNDIVIDED, estimate
from matplotlib.axes import Axes
from report import SCORE, Estimate, accuracies, arguments, band, markdown, outcomes, picture, points, write

from rpg.methods.labels import BASELINES, LOOKS, METHODS

LAST = "last accuracy"
START = 0.224  # of the untrained model: mean of 0.215 and 0.232, step 0 of the two runs that chose the learning rate


def main() -> None:
    """Write methods.md and the pictures."""
    settings, metrics, out = arguments()
    runs = frame(settings, metrics)
    learned = runs[runs.steps > 0]
    tables = [methods_table(learned[learned.folder.str.startswith("steps_")]), contrasts_text(learned)]
    tables += [exchanged(learned), one_seed_twice(learned), rates(runs, metrics), dapo(runs)]
    write(out / "methods.md", ["# The study's runs"], *tables)
    draw_methods(learned, out / "methods.png")
    draw_contrasts(learned, out / "contrasts.png")
    draw_curves(learned, metrics, out / "curves.png")


def frame(runs: pandas.DataFrame, metrics: pandas.DataFrame) -> pandas.DataFrame:
    """A line for each run: where it belongs, and what is compared; `steps` is 0 where the learning rate was chosen."""
    by_run = metrics.groupby("run")
    folder = runs.index.str.split("/").str[0]
    divided = (runs["algorithm.adv_estimator"] == "grpo") & runs["algorithm.norm_adv_by_std_in_grpo"].astype(bool)
    row = runs.method.isin(EIGHT)
    cell = runs.method.mask(row, ROWS).mask(row & divided, DIVIDED).mask((runs.method == "GRPO") & ~divided, UNDIVIDED)
    batch = runs["data.train_batch_size"] / runs["actor_rollout_ref.actor.ppo_mini_batch_size"]
    own = {
        "folder": folder,
        "method": runs.method,
        "cell": cell,
        "seed": runs["data.seed"],
        "steps": batch.astype(int).where(~folder.str.startswith("lr_"), 0),
        "rate": runs["actor_rollout_ref.actor.optim.lr"],
        "halfway": accuracies(metrics).groupby("run").nth(-2).droplevel("step"),
        "gradient norm": by_run["actor/grad_norm"].median(),
        "evicted": by_run["training/filter_groups/evicted_samples"].mean(),
        "left over": by_run["training/filter_groups/discarded_surplus_samples"].mean(),
        "prompts": runs["data.train_batch_size"],
    }
    return outcomes(metrics, LAST).assign(**own)


def methods_table(runs: pandas.DataFrame) -> list[str]:
    """Markdown: a row per method with means over its seeds, the last accuracy for each number of optimizer steps."""
    accuracy = runs.pivot_table(index="method", columns="steps", values=LAST)
    columns = {SCORE: 3, "entropy": 2, "tokens": 1, "largest KL": 3, "lowest ess": 3, "clipped": 3}
    rows = []
    for method in (method for method in METHODS if method in accuracy.index):
        own = runs[(runs.method == method) & (runs.steps == 16)]
        accuracies = ["" if pandas.isna(value) else f"{value:.3f}" for value in accuracy.loc[method]]
        rows.append([method, *accuracies, *(f"{own[name].mean():.{digits}f}" for name, digits in columns.items())])
    head = ["method", *(f"accuracy, {steps} steps" for steps in accuracy), *columns]
    title = "Last accuracy by optimizer steps per batch; the other columns are of 16 steps. Means of three seeds."
    return [title, "", *markdown(head, rows)]


def contrasts_text(runs: pandas.DataFrame) -> list[str]:
    """Markdown: all contrasts."""
    text = [
        "## Contrasts",
        "",
        "Differences ± standard error, blocked by seed. 90 % power: the true difference that nine of ten such studies "
        "would find. 16 steps per batch unless stated. The training score of rows with other reward shaping or a "
        "filter is not comparable. The last accuracy is over 512 problems.",
    ]
    for title, contrasts in CONTRASTS.items():
        rows = []
        for contrast in contrasts:
            cells = []
            for outcome in (SCORE, LAST):
                one = estimate(runs, contrast, outcome)
                shown = [str(one), f"{one.detectable:.3f}"]
                cells += shown if contrast.alike or outcome == LAST else ["", ""]
            rows.append([contrast.name, *cells])
        head = ["contrast", SCORE, "90 % power", LAST, "90 % power"]
        text += ["", f"### {title}", "", *markdown(head, rows)]
    return [*text]


def exchanged(runs: pandas.DataFrame) -> list[str]:
    """Markdown: both outcomes with and without division, seeds 1 to 9."""
    rows = []
    for loss in ("GRPO", "RPG-REINFORCE-URKL"):
        own = runs[(runs.steps == 16) & (runs.method == loss)]
        for name, cells in (("divided", ("GRPO", DIVIDED)), ("not divided", (ROWS, UNDIVIDED))):
            chosen = own[own.cell.isin(cells)]
            means = [f"{chosen[column].mean():.3f}" for column in (SCORE, LAST, "gradient norm")]
            rows.append([loss, name, str(len(chosen)), *means])
    head = ["loss", "advantages", "runs", SCORE, LAST, "gradient norm"]
    title = "## Division by the group's standard deviation, seeds 1 to 9"
    return [title, "", *markdown(head, rows, texts=2)]


def one_seed_twice(runs: pandas.DataFrame) -> list[str]:
    """Markdown: standard deviation between runs of one method and seed, and between all runs of the method."""
    repeated = runs[runs.folder.isin(("advantages_own", "advantages_twice"))]
    rows = []
    for method, own in repeated.groupby("method"):
        for outcome in (SCORE, LAST):
            within = own.groupby("seed")[outcome].var().mean() ** 0.5
            rows.append([str(method), outcome, str(len(own)), f"{within:.3f}", f"{own[outcome].std():.3f}"])
    head = ["method", "outcome", "runs", "standard deviation within a seed", "of all"]
    return ["## Repeated seeds", "", *markdown(head, rows, texts=2)]


def rates(runs: pandas.DataFrame, metrics: pandas.DataFrame) -> list[str]:
    """Markdown: the runs that chose the learning rate."""
    rows = []
    for name, run in runs[runs.steps == 0].sort_values(["rate", "method"]).iterrows():
        shown = ", ".join(f"{step}: {value:.3f}" for step, value in accuracies(metrics)[name].items())
        rows.append([f"{run.rate:g}", run.method, shown, f"{run['lowest ess']:.2f}"])
    head = ["rate", "method", "accuracy at batch", "lowest ess"]
    return ["## Learning rate, seed 11", "", *markdown(head, rows, texts=3)]


def dapo(runs: pandas.DataFrame) -> list[str]:
    """Markdown: the prompts that DAPO's filter costs, and the gain that the other methods make with as many."""
    chosen = runs[runs.folder == "steps_16"]
    own, rest = chosen[chosen.method == "DAPO"], chosen[chosen.method != "DAPO"]
    evicted, left, batch = own.evicted.mean(), own["left over"].mean(), own.prompts.mean()
    asked = batch + evicted + left
    gain = (rest[LAST] - rest.halfway).mean() / 6  # of 12 batches
    more = 12 * (asked / batch - 1)
    return [
        "## DAPO's prompts",
        "",
        f"DAPO drops {evicted:.1f} groups per batch and discards {left:.1f}: it samples {asked:.1f} prompts per batch, "
        f"the others {batch:.0f}. In the second half of training the others gain {gain:.3f} per batch. As many "
        f"prompts would give them {more:.1f} more batches, worth {gain * more:.3f}.",
    ]


def draw_methods(runs: pandas.DataFrame, path: Path) -> None:
    """A column per number of optimizer steps, a row per method: seeds, their mean and standard error."""
    chosen = runs[runs.folder.str.startswith("steps_")]
    methods = [method for method in METHODS if (chosen.method == method).any()]
    size = {"figsize": (12.5, 0.9 + 0.34 * len(methods)), "sharey": True, "sharex": True}
    with picture(path, 1, 3, **size) as axes:
        for axis, (steps, group) in zip(axes, chosen.groupby("steps"), strict=True):
            axis.axvline(START, color="#999999", linewidth=1, linestyle=":")
            axis.annotate("before\ntraining", (START, 0), (4, 0), textcoords="offset points", va="center",
                          color="#666666", size=9)  # fmt: skip
            axis.axhline(len(BASELINES) - 0.5, color="#bbbbbb", linewidth=0.8)
            for place, method in enumerate(methods):
                values = group[LAST][group.method == method]
                if not values.empty:
                    points(axis, values, place, values.sem(), LOOKS[method].colour)
            axis.set_title(f"{steps} optimizer steps per batch", loc="left")
            axis.set_xlabel("held-out accuracy after 384 prompts")
        axes[0].set_yticks(range(len(methods)), methods)
        axes[0].set_ylim(len(methods) - 0.5, -0.5)


def draw_contrasts(runs: pandas.DataFrame, path: Path) -> None:
    """A forest plot: differences with 95 % intervals, and the range with less than 90 % power."""
    size = {"figsize": (12.5, 0.9 + 0.34 * (sum(map(len, CONTRASTS.values())) + len(CONTRASTS))), "sharey": True}
    with picture(path, 1, 2, **size) as axes:
        for axis, outcome in zip(axes, (SCORE, LAST), strict=True):
            labels, place = {}, 0
            for title, contrasts in CONTRASTS.items():
                labels[place] = f"{title}:"
                for contrast in contrasts:
                    place += 1
                    labels[place] = contrast.name
                    if outcome == LAST or contrast.alike:
                        _forest_row(axis, place, estimate(runs, contrast, outcome), contrast.alike)
                place += 1
            axis.axvline(0, color="black", linewidth=0.8)
            axis.set_title(f"difference of the {outcome}", loc="left")
            axis.locator_params(axis="x", nbins=6)
        axes[0].set_yticks(list(labels), list(labels.values()))
        for label in axes[0].get_yticklabels():
            label.set_fontweight("bold" if label.get_text().endswith(":") else "normal")
        axes[0].set_ylim(place - 0.4, -0.6)
        explained = "bar: 95 % interval; grey: below 90 % power; hollow: confounded"
        axes[0].figure.text(0.99, 0.01, explained, ha="right", size=9)
        axes[0].figure.tight_layout(rect=(0, 0.02, 1, 1))


def _forest_row(axis: Axes, place: int, contrast: Estimate, alike: bool) -> None:
    reach = contrast.detectable
    axis.fill_betweenx([place - 0.36, place + 0.36], -reach, reach, color="#e4e4e4", linewidth=0)
    axis.errorbar(contrast.value, place, xerr=contrast.reach, fmt="o", color="#08519c", capsize=3, linewidth=1.6,
                  markerfacecolor="#08519c" if alike else "white")  # fmt: skip


def draw_curves(runs: pandas.DataFrame, metrics: pandas.DataFrame, path: Path) -> None:
    """By batch, with 16 steps a batch: means over runs with the same shaping and no filter, bands of one error."""
    shown = {
        "training score": "critic/score/mean",
        "entropy of a token, nats": "actor/entropy",
        "tokens per response": "response_length/mean",
    }
    colours = {ROWS: "#d62728", DIVIDED: "#08519c", "REINFORCE++": "#b5a642", "REINFORCE++-Baseline": "#8c564b"}
    with picture(path, 1, len(shown), figsize=(12.5, 4)) as axes:
        for axis, (title, key) in zip(axes, shown.items(), strict=True):
            for cell, colour in colours.items():
                chosen = runs[(runs.steps == 16) & (runs.cell == cell)]
                values = metrics[key].unstack("run")[chosen.index]
                band(axis, values, 0.2, color=colour, label=f"{cell} ({len(chosen)} runs)")
            axis.set_title(title, loc="left")
            axis.set_xlabel("batch")
        axes[0].legend(fontsize=9)


if __name__ == "__main__":
    main()
