"""SmolLM2-135M on sums of two numbers up to 20: held-out accuracy and the KL to the initial model, by seed."""

from pathlib import Path

from rpg.toy.demo import DEMOS, KL, Curve
from rpg.toy.demo import draw as draw_curves
from scripts.studies.common import SCORE, load, markdown


def tables() -> list[str]:
    """Return Markdown: a row a seed: accuracy of sampled and of greedy answers, score, KL."""
    runs, metrics = load("pretrained")
    greedy = metrics.accuracy.dropna().groupby("run").last()
    rows = []
    for run, seed in runs.seed[runs.arm == "smollm2"].astype(int).items():
        of_run = metrics.loc[run]
        accuracy = of_run.accuracy.dropna()
        rows.append(
            [
                str(seed),
                f"{accuracy.iloc[0]:.3f}",
                f"{accuracy.iloc[-1]:.3f}",
                f"{greedy['untrained-seed0']:.3f}",
                f"{greedy[f'greedy-seed{seed}']:.3f}",
                f"{runs[SCORE][run]:+.2f}",
                f"{of_run[KL].median():.2f}",
            ]
        )
    head = ["seed", "accuracy before", "after 30 steps", "greedy before", "greedy after", SCORE, "median KL"]
    return [markdown(head, rows)]


def draw(out: Path) -> None:
    """Draw pretrained.png: accuracy and KL by step, a line a seed."""
    runs, metrics = load("pretrained")
    curves = []
    for run in runs.index[runs.arm == "smollm2"]:
        accuracy, kl = (metrics.loc[run][name].dropna() for name in ("accuracy", KL))
        curves.append(Curve([*accuracy.items()], [*kl.items()]))
    draw_curves(curves, f"{DEMOS['smollm2'].title}, {len(curves)} seeds", out / "pretrained.png", with_kl=True)
