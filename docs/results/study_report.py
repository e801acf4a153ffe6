"""What the runs of study.sh say: each method's accuracy over seeds, contrasts between methods, a picture.

python docs/results/study_report.py docs/results/study docs/results/study

Reads the runs in steps_<optimizer steps a batch>/ of the first directory, writes methods.md and methods.png into the
second. What is compared with what stood here before the runs were made.
"""

import statistics
import sys
from collections.abc import Collection
from pathlib import Path

import matplotlib
import numpy

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes

from rpg.results import figures
from rpg.results.config import setting
from rpg.results.methods import BASELINES, DIVERGENCES, LOOKS, METHODS, order_of
from rpg.results.runs import Run, load_runs

Groups = dict[str, list[Run]]  # the runs of a method, one a seed
Cells = dict[tuple[str, bool], dict[int, list[float]]]  # accuracies by loss and division, and by seed

START = 0.224  # the untrained model's: mean of 0.215 and 0.232, step 0 of the two runs that chose the learning rate
RPG = [f"RPG-{name}" for name in DIVERGENCES]
REINFORCE = [f"RPG-REINFORCE-{name}" for name in DIVERGENCES]
EXTREMES = ("REINFORCE++", "RPG-FKL")  # the highest and the lowest of 16 steps a batch
CONTRASTS = (  # mean of the first methods less mean of the second
    ("RPG-REINFORCE less DAPO", REINFORCE, ["DAPO"]),
    ("RPG-REINFORCE less GRPO", REINFORCE, ["GRPO"]),
    ("RPG-REINFORCE less RPG", REINFORCE, RPG),
    ("RPG less GRPO", RPG, ["GRPO"]),
    ("DAPO less GRPO", ["DAPO"], ["GRPO"]),
    ("unnormalised less normalised KL", [*RPG[2:], *REINFORCE[2:]], [*RPG[:2], *REINFORCE[:2]]),
    ("reverse less forward KL", [*RPG[1::2], *REINFORCE[1::2]], [*RPG[::2], *REINFORCE[::2]]),
    ("GRPO-corrected less GRPO", ["GRPO-corrected"], ["GRPO"]),
    # asked when the runs with 16 steps had been seen, and before those with 2 and 64
    ("baselines less RPG (asked afterwards)", list(BASELINES), [*RPG, *REINFORCE]),
    ("the same without REINFORCE++", [name for name in BASELINES if name != EXTREMES[0]], [*RPG, *REINFORCE]),
)
ADVANTAGES = ("GRPO", "RPG-REINFORCE-URKL")  # the losses run with and without division
SEEDS = (("Seeds 1 to 3:", 1, 3), ("Seeds 4 to 9, to see it again:", 4, 9), ("All nine:", 1, 9))
DIVIDED = "algorithm.norm_adv_by_std_in_grpo"
PERMUTATIONS = 20_000
HEAD = ("method", "accuracy of each seed", "mean", "halfway", "entropy", "tokens a response", "largest KL of a batch",
        "lowest ess", "clipped")  # fmt: skip


def main() -> None:
    """Write methods.md and methods.png of what is there."""
    root, out = map(Path, sys.argv[1:])
    notes: list[str] = []
    studies = {}
    for folder in sorted(root.glob("steps_*"), key=steps_a_batch):
        studies[steps_a_batch(folder)] = by_method([run for run in load_runs([folder], notes) if not run.stopped_early])
    text: list[str] = []
    for steps, groups in studies.items():
        text += [f"## {steps} optimizer steps a batch", "", *lines(groups), "", *contrasts(groups), ""]
    own = [run for method in ADVANTAGES for run in studies.get(16, {}).get(method, [])]
    once, twice, others, extremes = (
        load_runs([folder], notes) if (folder := root / name).is_dir() else []
        for name in ("advantages_own", "advantages_twice", "advantages", "extremes")
    )
    text += seen_again(studies.get(16, {}), by_method([*once, *twice, *extremes]))
    text += [*divided([*own, *once, *twice, *others]), *of_one_seed(once, twice)]
    (out / "methods.md").write_text("\n".join(text))
    draw(studies, out / "methods.png")
    print(*text, *notes, sep="\n")


def steps_a_batch(folder: Path) -> int:
    """What a folder of runs is called after."""
    return int(folder.name.removeprefix("steps_"))


def by_method(runs: list[Run]) -> Groups:
    """In the paper's order."""
    groups: Groups = {}
    for run in sorted(runs, key=lambda run: (order_of(run.method), run.name)):
        groups.setdefault(run.method, []).append(run)
    return groups


def accuracies(run: Run) -> list[float]:
    """Of each validation."""
    (accuracy,) = run.accuracies().values()
    return [value for _, value in accuracy]


def last(runs: list[Run]) -> list[float]:
    """The last accuracy of each run."""
    return [accuracies(run)[-1] for run in runs]


def lines(groups: Groups) -> list[str]:
    """Markdown: a line a method; means over its seeds."""
    rows = [f"| {' | '.join(HEAD)} |", f"|---|---|{'--:|' * (len(HEAD) - 2)}"]
    for method, runs in groups.items():

        def mean(name: str, reduced, runs: list[Run] = runs) -> float:
            return statistics.mean(reduced([value for _, value in run.series(name)]) for run in runs)

        cells = [
            method,
            ", ".join(f"{value:.3f}" for value in last(runs)),
            f"{statistics.mean(last(runs)):.3f}",
            f"{statistics.mean(accuracies(run)[0] for run in runs):.3f}",
            f"{mean('actor/entropy', lambda values: values[-1]):.2f}",
            f"{mean('response_length/mean', lambda values: values[-1]):.1f}",
            f"{mean('training/off_policy/kl', max):.3f}",
            f"{mean('training/off_policy/ess', min):.3f}",
            f"{mean('actor/pg_clipfrac', statistics.median):.3f}",
        ]
        rows.append(f"| {' | '.join(cells)} |")
    return rows


def contrasts(groups: Groups) -> list[str]:
    """Markdown: whether methods differ at all, what their seeds could tell apart, and the contrasts."""
    values = [last(runs) for runs in groups.values()]
    seeds = min(map(len, values))
    if seeds < 2 or len(values) < 2:
        return ["One seed: nothing is compared."]
    freedom, spread = sum(map(len, values)) - len(values), pooled(values)
    rows = [
        f"Seeds of one method differ by a standard deviation of {spread:.3f} ({freedom} degrees of freedom), so that "
        f"two methods with {seeds} seeds each are told apart from {2 * spread * (2 / seeds) ** 0.5:.3f} on (two "
        f"standard errors). Methods differ by {statistics.stdev(map(statistics.mean, values)):.3f}, where equal ones "
        f"would by {spread / seeds**0.5:.3f}: p = {chance(groups):.3f} (methods permuted within seeds). "
        f"{furthest(groups, spread)}",
        "",
        "| contrast | difference | in standard errors |",
        "|---|--:|--:|",
    ]
    told: list[tuple[list[str], list[str]]] = []
    for name, left, right in CONTRASTS:
        if not {*left, *right} & set(groups):
            continue
        left, right = [one for one in left if one in groups], [one for one in right if one in groups]
        if not left or not right or (left, right) in told:
            continue
        told.append((left, right))
        difference, error = apart(*([last(groups[one]) for one in side] for side in (left, right)), spread)
        rows.append(f"| {name} | {difference:+.3f} ± {error:.3f} | {difference / error:+.1f} |")
    return rows


def pooled(values: Collection[list[float]]) -> float:
    """The standard deviation within lists of values, taken as one for all of them."""
    freedom = sum(map(len, values)) - len(values)
    return (sum((len(one) - 1) * statistics.variance(one) for one in values) / freedom) ** 0.5


def apart(left: list[list[float]], right: list[list[float]], spread: float) -> tuple[float, float]:
    """Mean of the means of the left lists less that of the right ones, and its standard error."""
    means = [statistics.mean(map(statistics.mean, side)) for side in (left, right)]
    variance = sum(1 / len(one) / len(side) ** 2 for side in (left, right) for one in side)
    return means[0] - means[1], spread * variance**0.5


def furthest(groups: Groups, spread: float) -> str:
    """The method that is furthest from the mean of the others, and what the test says without it."""
    found = {one: apart([last(runs)], [last(others) for other, others in groups.items() if other != one], spread)
             for one, runs in groups.items()}  # fmt: skip
    one = max(found, key=lambda method: abs(found[method][0]))
    difference, error = found[one]
    without = chance({method: runs for method, runs in groups.items() if method != one})
    by = f"{difference:+.3f} ± {error:.3f}"
    return f"Furthest from the mean of the others: {one}, by {by}; without it p = {without:.3f}."


def seen_again(first: Groups, later: Groups) -> list[str]:
    """Markdown: the highest and the lowest method on seeds that did not choose them, beside two others."""
    if not all(method in first and method in later for method in (*EXTREMES, *ADVANTAGES)):
        return []
    rows = ["## The highest and the lowest of 16 optimizer steps a batch, on other seeds", "",
            "| method | seeds 1 to 3 | seeds 4 to 9 | runs |", "|---|--:|---|--:|"]  # fmt: skip
    values = {method: last(later[method]) for method in (*EXTREMES, *ADVANTAGES)}
    for method, found in values.items():
        shown = ", ".join(f"{value:.3f}" for value in found)
        before = statistics.mean(last(first[method]))
        rows.append(f"| {method} | {before:.3f} | {shown}: {statistics.mean(found):.3f} | {len(found)} |")
    spread = pooled(values.values())
    told = []
    for method in EXTREMES:
        difference, error = apart([values[method]], [values[one] for one in ADVANTAGES], spread)
        told.append(f"{method} less both others: {difference:+.3f} ± {error:.3f}.")
    return [*rows, "", f"Seeds 4 to 9: {' '.join(told)} Of one method's runs a standard deviation: {spread:.3f}.", ""]


def divided(runs: list[Run]) -> list[str]:
    """Markdown: two losses, each with advantages that are divided by the group's standard deviation and with others."""
    text = ["## 16 optimizer steps a batch, what advantages are divided by", ""]
    for title, first, last in SEEDS:
        cells: Cells = {}
        for run in runs:
            if first <= (seed := setting(run.config, "data.seed")) <= last:
                by = setting(run.config, "algorithm.adv_estimator") == "grpo" and setting(run.config, DIVIDED)
                cells.setdefault((run.method, bool(by)), {}).setdefault(seed, []).append(accuracies(run)[-1])
        if len(cells) == 4:
            text += [title, "", *exchanged(cells), ""]
    return text


def of_one_seed(once: list[Run], twice: list[Run]) -> list[str]:
    """Markdown: how far two runs of one method and seed are apart, beside runs of different seeds."""
    pairs: dict[str, list[list[float]]] = {}
    for method in ADVANTAGES:
        values = [{setting(run.config, "data.seed"): accuracies(run)[-1] for run in runs if run.method == method}
                  for runs in (once, twice)]  # fmt: skip
        if seeds := sorted(values[0].keys() & values[1].keys()):
            pairs[method] = [[found[seed] for found in values] for seed in seeds]
    if not pairs:
        return []
    rows = [
        "## One seed twice",
        "",
        "| method | runs | mean | deviation within a seed | of all |",
        "|---|--:|--:|--:|--:|",
    ]
    for method, found in pairs.items():
        every = [value for pair in found for value in pair]
        within = statistics.mean(statistics.variance(pair) for pair in found) ** 0.5
        shown = f"{statistics.mean(every):.3f} | {within:.3f} | {statistics.stdev(every):.3f}"
        rows.append(f"| {method} | {len(every)} | {shown} |")
    return [*rows, ""]


def exchanged(cells: Cells) -> list[str]:
    """Markdown: accuracies by loss and division, and both differences.

    Their standard errors: of all runs as they are, and of the differences within seeds.
    """
    every = {key: [value for found in seeds.values() for value in found] for key, seeds in cells.items()}
    rows = ["| loss | divided by the group's standard deviation | not divided |", "|---|---|---|"]
    for method in ADVANTAGES:
        shown = [f"{', '.join(f'{v:.3f}' for v in found)}: {statistics.mean(found):.3f}"
                 for found in (every[method, True], every[method, False])]  # fmt: skip
        rows.append(f"| {method} | {shown[0]} | {shown[1]} |")
    spread = pooled(every.values())
    grpo, rpg = ADVANTAGES
    told = []
    for name, plus, minus in (
        ("Divided less not", ((grpo, True), (rpg, True)), ((grpo, False), (rpg, False))),
        (f"{rpg} less {grpo}", ((rpg, True), (rpg, False)), ((grpo, True), (grpo, False))),
    ):
        difference, error = apart(*([every[key] for key in side] for side in (plus, minus)), spread)
        sides = [[sum(statistics.mean(cells[key][seed]) for key in side) / 2 for seed in cells[grpo, True]]
                 for side in (plus, minus)]  # fmt: skip
        pairs = [left - right for left, right in zip(*sides, strict=True)]
        paired = f"{statistics.mean(pairs):+.3f} ± {statistics.stdev(pairs) / len(pairs) ** 0.5:.3f}"
        told.append(f"{name}: {difference:+.3f} ± {error:.3f}; seed by seed {paired}.")
    return [*rows, "", f"{' '.join(told)} Of one loss' seeds a standard deviation: {spread:.3f}."]


def chance(groups: Groups) -> float:
    """How often methods drawn anew within each seed have means that vary as much: a permutation test.

    Of the seeds that all methods have.
    """
    by_seed = [{setting(run.config, "data.seed"): accuracies(run)[-1] for run in runs} for runs in groups.values()]
    seeds = set.intersection(*map(set, by_seed))
    values = numpy.array([[found[seed] for seed in sorted(seeds)] for found in by_seed])
    drawn = numpy.random.default_rng(0).permuted(numpy.tile(values, (PERMUTATIONS, 1, 1)), axis=1)
    return float((1 + (drawn.mean(2).var(1) >= values.mean(1).var() - 1e-12).sum()) / (1 + PERMUTATIONS))


def draw(studies: dict[int, Groups], path: Path) -> None:
    """A column a number of optimizer steps a batch, a row a method: seeds, their mean and standard error."""
    widest = max(studies.values(), key=len)
    methods = [method for method in METHODS if method in widest]
    with pyplot.rc_context(figures.STYLE):
        figure, axes = pyplot.subplots(
            1, len(studies), figsize=(3.2 + 3.1 * len(studies), 0.9 + 0.34 * len(methods)), sharey=True, sharex=True,
            squeeze=False,
        )  # fmt: skip
        for axis, (steps, groups) in zip(axes[0], studies.items(), strict=True):
            dots(axis, groups, methods)
            axis.set_title(f"{steps} optimizer steps a batch", loc="left")
            axis.set_xlabel("held-out accuracy after 384 prompts")
        axes[0, 0].set_yticks(range(len(methods)), methods)
        axes[0, 0].set_ylim(len(methods) - 0.5, -0.5)
        figure.tight_layout()
        figure.savefig(path, dpi=100)


def dots(axis: Axes, groups: Groups, methods: list[str]) -> None:
    """One column of the picture."""
    axis.axvline(START, color="#999999", linewidth=1, linestyle=":")
    axis.annotate(
        "before\ntraining", (START, 0), (4, 0), textcoords="offset points", va="center", color="#666666", size=9
    )
    axis.axhline(len(set(BASELINES) & set(methods)) - 0.5, color="#bbbbbb", linewidth=0.8)
    for place, method in enumerate(methods):
        if method not in groups:
            continue
        values, colour = last(groups[method]), LOOKS[method].colour
        axis.plot(values, [place] * len(values), "o", color=colour, alpha=0.45, markersize=5, markeredgewidth=0)
        error = statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else 0
        axis.errorbar(
            statistics.mean(values), place, xerr=error, fmt="D", color=colour, markersize=6, capsize=3, linewidth=1.6
        )


if __name__ == "__main__":
    main()
