"""Tables and picture of the runs of off_policy.sh: choices of pi_old by age of the rollouts.

python scripts/studies/off_policy_report.py docs/results/off_policy OUT

Reads the three files that compact.py wrote; writes runs.md and ages.png into OUT.
"""

from pathlib import Path

import pandas
from report import accuracies, fit, load, markdown, picture, write

from rpg.registry.labels import order_of

UNCLIPPED = "RPG-REINFORCE-URKL (no clip)"
CHOICES = ("recomputed", "decoupled", "behavior")
COLOURS = {"behavior": "tab:red", "decoupled": "tab:blue", "recomputed": "tab:orange"}
LAST = "at step 16"
OUTCOMES = ("at step 8", LAST, "training score")


def main() -> None:
    """Write runs.md and ages.png."""
    runs, metrics, out = load(LAST)
    asynchronous = runs["trainer.v1.trainer_mode"] == "colocate_async"
    runs["ahead"] = runs["trainer.v1.colocate_async.num_warmup_batches"].where(asynchronous, 0).astype(int)
    runs["pi_old"] = runs["rpg.pi_old"].where(asynchronous, "sync")
    runs["at step 8"] = accuracies(metrics).groupby("run").first()
    runs["ess"] = metrics.groupby("run")["training/off_policy/ess"].median()
    runs["order"] = runs.method.map(order_of)  # the paper's reference
    runs = runs.sort_values(["order", "ahead", "pi_old"])
    clipped = runs[runs.method != UNCLIPPED]
    tables = [of_methods(runs), means(clipped), against_recomputed(clipped[clipped.ahead > 0])]
    write(out / "runs.md", f"# The {len(runs)} runs", *tables)
    draw(runs, out / "ages.png")


def by_age(runs: pandas.DataFrame) -> dict[str, list[str]]:
    """Return, for each choice, the mean accuracy at step 16 of the synchronous runs and of those ahead, by age."""
    table = runs.pivot_table(index="pi_old", columns="ahead", values=LAST)
    table[0] = table.loc["sync", 0]
    return {choice: [f"{value:.3f}" for value in table.loc[choice]] for choice in CHOICES if choice in table.index}


def head(runs: pandas.DataFrame) -> list[str]:
    """Return the headings of the columns of by_age."""
    return ["sync", *(f"{age} ahead" for age in sorted(set(runs.ahead) - {0}))]


def of_methods(runs: pandas.DataFrame) -> str:
    """Return Markdown: accuracy at step 16, one row per method and choice, one column per number of batches ahead."""
    methods = runs.groupby("method", sort=False)
    rows = [[method, f"`{name}`", *shown] for method, own in methods for name, shown in by_age(own).items()]
    return markdown(["accuracy at step 16", "pi_old", *head(runs)], rows, texts=2)


def means(runs: pandas.DataFrame) -> str:
    """Return Markdown: the same as means over methods."""
    rows = [[f"`{choice}`", *shown] for choice, shown in by_age(runs).items()]
    return markdown(["mean of the methods with a clip", *head(runs)], rows)


def against_recomputed(runs: pandas.DataFrame) -> str:
    """Return Markdown: outcomes minus those of `recomputed`, same method and age; errors from the pooled deviation."""
    rows = []
    for outcome in OUTCOMES:
        deviation = run_deviation(runs, outcome)
        table = runs.pivot_table(index=["method", "ahead"], columns="pi_old", values=outcome)
        for choice in CHOICES[1:]:
            pairs = table[choice] - table["recomputed"]
            each = [*(own for _, own in pairs.groupby("ahead")), pairs]
            shown = [f"{own.mean():+.3f} ± {deviation * (2 / len(own)) ** 0.5:.3f}" for own in each]
            rows.append([f"`{choice}`, {outcome}", *shown, f"{deviation:.3f}"])
    columns = [*head(runs)[1:], "all", "standard deviation of a run"]
    return markdown(["with a clip, minus `recomputed`", *columns], rows)


def run_deviation(runs: pandas.DataFrame, outcome: str) -> float:
    """Return the residual standard deviation of a run, given the effects of its method and of its choice and age."""
    _, _, _, variance, _ = fit(runs.assign(cell=runs.pi_old + runs.ahead.astype(str)), "cell", "method", outcome)
    return variance**0.5


def draw(runs: pandas.DataFrame, path: Path) -> None:
    """Draw one column per method and one line per pi_old against the batches ahead, from the synchronous run on."""
    shown = {"last accuracy": LAST, "median ess": "ess", "largest KL(mu, pi_theta)": "largest KL"}
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
