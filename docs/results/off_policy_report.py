"""What the runs of off_policy.sh say: a line each; pictures of the training score against step and time, and by age.

python docs/results/off_policy_report.py docs/results/off_policy/logs docs/results/off_policy
"""

import itertools
import re
import statistics
import sys
from pathlib import Path

import matplotlib
import numpy

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.figure import Figure

from rpg.results import figures
from rpg.results.methods import order_of
from rpg.results.runs import Run, load_runs

NAME = re.compile(r"(?P<script>.+)-(?P<schedule>sync|async\d+)(?:-(?P<pi_old>\w+))?")
HEAD = ("method", "rollouts", "pi_old", "staleness", "accuracy at step 8", "at 16", "score, last 4 batches",
        "s a step", "ess, median", "lowest", "largest KL", "clipped, median")  # fmt: skip
UNCLIPPED = "rpg_cpu_urkl1e-4_rf"
SCORE = "critic/score/mean"
COLOURS = {"sync": "black", "behavior": "tab:red", "decoupled": "tab:blue", "recomputed": "tab:orange"}
CHOICES = ("recomputed", "decoupled", "behavior")
LINES = {0: "-", 4: "-", 1: ":", 2: "--"}  # batches that the rollouts are ahead


def main() -> None:
    """Write runs.md, scores.png and ages.png of the runs below the first directory into the second."""
    source, out = map(Path, sys.argv[1:])
    notes: list[str] = []
    found = [run for run in load_runs([source], notes) if not run.stopped_early]
    runs = sorted(found, key=lambda run: (order_of(run.method), ahead(run), pi_old(run)))
    out.mkdir(parents=True, exist_ok=True)
    rows = [f"| {' | '.join(HEAD)} |", f"|---|---|---|{'--:|' * (len(HEAD) - 3)}"]
    rows += [f"| {' | '.join(cells(run))} |" for run in runs]
    rows += ["", *means(runs), "", *against_recomputed(runs)]
    (out / "runs.md").write_text("\n".join(rows) + "\n")
    draw(runs, out / "scores.png")
    draw_ages(runs, out / "ages.png")
    print(*rows, *notes, sep="\n")


def _parts(run: Run) -> re.Match[str]:
    found = NAME.fullmatch(run.directory.name)
    if found is None:
        sys.exit(f"off_policy_report: {run.path}: no run of off_policy.sh")
    return found


def ahead(run: Run) -> int:
    """Batches that the rollouts are ahead of training; 0: synchronous."""
    return int(_parts(run)["schedule"].removeprefix("async") if _parts(run)["pi_old"] else 0)


def pi_old(run: Run) -> str:
    """`sync` where there is no choice."""
    return _parts(run)["pi_old"] or "sync"


def off_policy(run: Run, name: str) -> list[float]:
    """A metric of training/off_policy, batch by batch."""
    return [value for _, value in run.series(f"training/off_policy/{name}")]


def accuracies(run: Run) -> list[float]:
    """Of each validation, on the toy task."""
    (accuracy,) = run.accuracies().values()
    return [value for _, value in accuracy]


def cells(run: Run) -> list[str]:
    """One run's line."""
    ess, kl, stale = (off_policy(run, name) for name in ("ess", "kl", "trajectory_staleness/mean"))
    return [
        run.method,
        f"{ahead(run)} ahead" if ahead(run) else "sync",
        pi_old(run),
        f"{statistics.mean(stale):.2f}" if stale else "0",
        *(f"{value:.3f}" for value in accuracies(run)),
        f"{statistics.mean(value for _, value in run.series(SCORE)[-4:]):+.2f}",
        f"{statistics.median(value for _, value in run.series('timing_s/step')[2:]):.1f}",
        f"{statistics.median(ess):.3f}",
        f"{min(ess):.3f}",
        f"{max(kl):.3f}",
        f"{statistics.median(value for _, value in run.series('actor/pg_clipfrac')):.3f}",
    ]


def means(runs: list[Run]) -> list[str]:
    """Markdown: the last accuracy by choice and batches ahead, mean over the methods with a clip."""
    clipped = [run for run in runs if _parts(run)["script"] != UNCLIPPED]
    ages = sorted({ahead(run) for run in clipped} - {0})
    start = f"{statistics.mean(accuracies(run)[-1] for run in clipped if not ahead(run)):.3f}"
    rows = [
        f"| last accuracy, mean over methods with a clip | sync | {' | '.join(f'{age} ahead' for age in ages)} |",
        f"|---|{'--:|' * (len(ages) + 1)}",
    ]
    for choice in CHOICES:
        row = [[accuracies(run)[-1] for run in clipped if (ahead(run), pi_old(run)) == (age, choice)] for age in ages]
        rows.append(f"| `{choice}` | {start} | {' | '.join(f'{statistics.mean(values):.3f}' for values in row)} |")
    return rows


def against_recomputed(runs: list[Run]) -> list[str]:
    """Markdown: last accuracy less that of `recomputed`, same method and batches ahead: mean and standard error."""
    last = {(_parts(run)["script"], ahead(run), pi_old(run)): accuracies(run)[-1] for run in runs}
    pairs = {key: value - last[both] for key, value in last.items() if (both := (*key[:2], "recomputed")) in last}
    ages = sorted({age for _, age, _ in pairs})
    rows = [
        f"| accuracy less that of `recomputed` | {' | '.join(f'{age} ahead' for age in ages)} | all | higher |",
        f"|---|{'--:|' * (len(ages) + 2)}",
    ]
    for choice, unclipped in (("decoupled", False), ("behavior", False), ("behavior", True)):
        differences = {
            age: [
                value
                for (script, its_age, its_choice), value in pairs.items()
                if (its_age, its_choice, script == UNCLIPPED) == (age, choice, unclipped)
            ]
            for age in ages
        }
        everything = [value for values in differences.values() for value in values]
        cells = [mean_and_error(values) for values in (*differences.values(), everything)]
        higher = f"{sum(value > 0 for value in everything)} of {len(everything)}"
        label = "without a clip" if unclipped else "with a clip"
        rows.append(f"| `{choice}`, {label} | {' | '.join(cells)} | {higher} |")
    return rows


def mean_and_error(values: list[float]) -> str:
    """Of one value the value alone; of none a dash."""
    if len(values) < 2:
        return f"{values[0]:+.3f}" if values else "-"
    return f"{statistics.mean(values):+.3f} ± {statistics.stdev(values) / len(values) ** 0.5:.3f}"


def draw(runs: list[Run], path: Path) -> None:
    """A column a method; the training score against step above, against minutes of training below."""
    columns = [list(group) for _, group in itertools.groupby(runs, lambda run: run.method)]
    with pyplot.rc_context(figures.STYLE):
        figure, axes = pyplot.subplots(2, len(columns), figsize=(4 * len(columns), 7), sharey=True, squeeze=False)
        for column, group in enumerate(columns):
            axes[0, column].set_title(group[0].method)
            axes[0, column].set_xlabel("step")
            axes[1, column].set_xlabel("minutes of training")
            for run in group:
                look = {"color": COLOURS[pi_old(run)], "linestyle": LINES[ahead(run)],
                        "linewidth": 1.8 if ahead(run) in (0, 4) else 1.0,
                        "label": f"{pi_old(run)}, {ahead(run)} ahead" if ahead(run) else "sync"}  # fmt: skip
                steps, scores = zip(*run.series(SCORE), strict=True)
                smooth = figures.smooth(scores)  # of three batches, as one is 128 responses
                minutes = run.minutes()
                axes[0, column].plot(steps, smooth, **look)
                axes[1, column].plot([minutes[step] for step in steps], smooth, **look)
        axes[0, 0].set_ylabel("training score, mean of 3 batches")
        axes[1, 0].set_ylabel("training score, mean of 3 batches")
        finish(figure, axes, path, columns=5)


def finish(figure: Figure, axes: numpy.ndarray, path: Path, columns: int) -> None:
    """One legend of the first row's lines below all, in so many columns; write the picture."""
    handles = {label: line for axis in axes[0] for line, label in zip(*axis.get_legend_handles_labels(), strict=True)}
    figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=columns)
    figure.tight_layout(rect=(0, 0.03 + 0.03 * (len(handles) / columns), 1, 1))
    figure.savefig(path, dpi=100)


AGES = (
    ("accuracy at the last step", lambda run: accuracies(run)[-1]),
    ("effective sample size, median", lambda run: statistics.median(off_policy(run, "ess"))),
    ("largest KL(mu, pi_theta) of a batch", lambda run: max(off_policy(run, "kl"))),
)


def draw_ages(runs: list[Run], path: Path) -> None:
    """A column a method; against the batches ahead, a line a pi_old that begins with the synchronous run."""
    columns = [list(group) for _, group in itertools.groupby(runs, lambda run: run.method)]
    with pyplot.rc_context(figures.STYLE):
        figure, axes = pyplot.subplots(
            len(AGES), len(columns), figsize=(4 * len(columns), 9), sharex=True, sharey="row", squeeze=False
        )
        for column, group in enumerate(columns):
            axes[0, column].set_title(group[0].method)
            axes[-1, column].set_xlabel("batches ahead")
            for row, (label, value) in enumerate(AGES):
                axes[row, 0].set_ylabel(label)
                for choice in CHOICES:
                    points = [(ahead(run), value(run)) for run in group if pi_old(run) in ("sync", choice)]
                    if len(points) > 1:
                        axes[row, column].plot(
                            *zip(*points, strict=True), marker="o", color=COLOURS[choice], label=choice
                        )
            axes[-1, column].set_yscale("log")
        finish(figure, axes, path, columns=len(CHOICES))


if __name__ == "__main__":
    main()
