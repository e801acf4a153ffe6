"""Tables and a picture of the runs of off_policy.sh: the choices of pi_old compared by age of the rollouts.

python scripts/studies/off_policy_report.py docs/results/off_policy OUT

Reads the three files that compact.py wrote; writes runs.md and ages.png into OUT.
"""

from pathlib import Path

import pandas
import report
from report import arguments, fit, markdown, picture, write

from rpg.methods.labels import order_of

UNCLIPPED = "RPG-REINFORCE-URKL (no clip)"
CHOICES = ("recomputed", "decoupled", "behavior")
COLOURS = {"behavior": "tab:red", "decoupled": "tab:blue", "recomputed": "tab:orange"}
OUTCOMES = ("at step 8", "at step 16", "training score")


def main() -> None:
    """Write runs.md and ages.png."""
    settings, metrics, out = arguments()
    runs = frame(settings, metrics)
    write(out / "runs.md", ["# The 47 runs"], accuracies(runs), means(runs), against_recomputed(runs))
    draw_ages(runs, out / "ages.png")


def frame(runs: pandas.DataFrame, metrics: pandas.DataFrame) -> pandas.DataFrame:
    """A line for each run, in the paper's order of methods."""
    asynchronous = runs["trainer.v1.trainer_mode"] == "colocate_async"
    own = {
        "method": runs.method,
        "ahead": runs["trainer.v1.colocate_async.num_warmup_batches"].where(asynchronous, 0).astype(int),
        "pi_old": runs["rpg.pi_old"].where(asynchronous, "sync"),
        "at step 8": report.accuracies(metrics).groupby("run").first(),
        "ess": metrics.groupby("run")["training/off_policy/ess"].median(),
    }
    table = report.outcomes(metrics, "at step 16").assign(**own)
    table["order"] = table.method.map(order_of)
    return table.sort_values(["order", "ahead", "pi_old"])


def accuracies(runs: pandas.DataFrame) -> list[str]:
    """Markdown: the accuracy at step 16, a row per method and choice, a column per number of batches ahead."""
    ages = sorted(set(runs.ahead) - {0})
    rows = []
    for method, group in runs.groupby("method", sort=False):
        values = group.set_index(["pi_old", "ahead"])["at step 16"]
        for choice in (choice for choice in CHOICES if choice in values.index):
            shown = [values[("sync", 0)], *(values[(choice, age)] for age in ages)]
            rows.append([str(method), f"`{choice}`", *(f"{value:.3f}" for value in shown)])
    return markdown(["accuracy at step 16", "pi_old", "sync", *(f"{age} ahead" for age in ages)], rows, texts=2)


def means(runs: pandas.DataFrame) -> list[str]:
    """Markdown: the accuracy at step 16 by choice and batches ahead, mean over the methods with a clip."""
    clipped = runs[runs.method != UNCLIPPED]
    start = f"{clipped[clipped.ahead == 0]['at step 16'].mean():.3f}"
    table = clipped[clipped.ahead > 0].pivot_table(index="pi_old", columns="ahead", values="at step 16")
    head = ["mean of the methods with a clip", "sync", *(f"{age} ahead" for age in table)]
    return markdown(head, ([f"`{c}`", start, *(f"{value:.3f}" for value in table.loc[c])] for c in CHOICES))


def against_recomputed(runs: pandas.DataFrame) -> list[str]:
    """Markdown: each outcome minus that of `recomputed`, same method and age; errors from the pooled deviation."""
    chosen = runs[(runs.method != UNCLIPPED) & (runs.ahead > 0)]
    ages = sorted(set(chosen.ahead))
    rows = []
    for outcome in OUTCOMES:
        deviation = run_deviation(chosen, outcome)
        table = chosen.pivot_table(index=["method", "ahead"], columns="pi_old", values=outcome)
        for choice in CHOICES[1:]:
            pairs = table[choice] - table["recomputed"]
            of_ages = [pairs[pairs.index.get_level_values("ahead") == age] for age in ages]
            shown = [f"{each.mean():+.3f} ± {deviation * (2 / len(each)) ** 0.5:.3f}" for each in (*of_ages, pairs)]
            rows.append([f"`{choice}`, {outcome}", *shown, f"{deviation:.3f}"])
    head = ["with a clip, minus `recomputed`", *(f"{age} ahead" for age in ages), "all", "standard deviation of a run"]
    return markdown(head, rows)


def run_deviation(runs: pandas.DataFrame, outcome: str) -> float:
    """Standard deviation of a run about the sum of its method's effect and that of its choice at its age."""
    _, _, _, variance, _ = fit(runs.assign(cell=runs.pi_old + runs.ahead.astype(str)), "cell", "method", outcome)
    return variance**0.5


def draw_ages(runs: pandas.DataFrame, path: Path) -> None:
    """A column a method; against the batches ahead, a line a pi_old that begins with the synchronous run."""
    shown = {"last accuracy": "at step 16", "median ess": "ess", "largest KL(mu, pi_theta)": "largest KL"}
    size = (len(shown), runs.method.nunique())
    with picture(path, *size, 75, figsize=(16, 8.5), sharex=True, sharey="row", squeeze=False) as axes:
        for column, (method, group) in enumerate(runs.groupby("method", sort=False)):
            axes[0, column].set_title(method)
            axes[-1, column].set_xlabel("batches ahead")
            for axis, (label, value) in zip(axes[:, column], shown.items(), strict=True):
                axis.set_ylabel(label if column == 0 else "")
                for choice in CHOICES:
                    own = group[group.pi_old.isin(("sync", choice))]
                    if len(own) > 1:
                        axis.plot(own.ahead, own[value], marker="o", color=COLOURS[choice], label=choice)
            axes[-1, column].set_yscale("log")
        figure = axes[0, 0].figure
        figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="lower center", ncols=len(CHOICES))
        figure.tight_layout(rect=(0, 0.05, 1, 1))


if __name__ == "__main__":
    main()
