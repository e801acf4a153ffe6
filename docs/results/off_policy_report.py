"""What the runs of off_policy.sh say: a line each, and a picture of the training score against step and against time.

python docs/results/off_policy_report.py docs/results/off_policy/logs docs/results/off_policy
"""

import itertools
import re
import statistics
import sys
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot

from rpg.results import figures
from rpg.results.methods import order_of
from rpg.results.runs import Run, load_runs

NAME = re.compile(r"(?:.+)-(?P<schedule>sync|async\d+)(?:-(?P<pi_old>\w+))?")
HEAD = ("method", "rollouts", "pi_old", "staleness", "accuracy at step 8", "at 16", "score, last 4 batches",
        "s a step", "ess, median", "lowest", "largest KL", "clipped, median")  # fmt: skip
SCORE = "critic/score/mean"
COLOURS = {"sync": "black", "behavior": "tab:red", "decoupled": "tab:blue", "recomputed": "tab:orange"}
LINES = {0: "-", 4: "-", 1: ":", 2: "--"}  # batches that the rollouts are ahead


def main() -> None:
    """Write runs.md and scores.png of the runs below the first directory into the second."""
    source, out = map(Path, sys.argv[1:])
    notes: list[str] = []
    found = [run for run in load_runs([source], notes) if not run.stopped_early]
    runs = sorted(found, key=lambda run: (order_of(run.method), ahead(run), pi_old(run)))
    out.mkdir(parents=True, exist_ok=True)
    rows = [f"| {' | '.join(HEAD)} |", f"|---|---|---|{'--:|' * (len(HEAD) - 3)}"]
    rows += [f"| {' | '.join(cells(run))} |" for run in runs]
    (out / "runs.md").write_text("\n".join(rows) + "\n")
    draw(runs, out / "scores.png")
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


def cells(run: Run) -> list[str]:
    """One run's line."""
    (accuracy,) = run.accuracies().values()
    (ess, kl, stale) = (
        [value for _, value in run.series(f"training/off_policy/{name}")]
        for name in ("ess", "kl", "trajectory_staleness/mean")
    )
    return [
        run.method,
        f"{ahead(run)} ahead" if ahead(run) else "sync",
        pi_old(run),
        f"{statistics.mean(stale):.2f}" if stale else "0",
        *(f"{value:.3f}" for _, value in accuracy),
        f"{statistics.mean(value for _, value in run.series(SCORE)[-4:]):+.2f}",
        f"{statistics.median(value for _, value in run.series('timing_s/step')[2:]):.1f}",
        f"{statistics.median(ess):.3f}",
        f"{min(ess):.3f}",
        f"{max(kl):.3f}",
        f"{statistics.median(value for _, value in run.series('actor/pg_clipfrac')):.3f}",
    ]


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
                        "label": f"{pi_old(run)}, {ahead(run)} ahead" if ahead(run) else "sync"}  # fmt: skip
                steps, scores = zip(*run.series(SCORE), strict=True)
                smooth = figures.smooth(scores)  # of three batches, as one is 128 responses
                minutes = run.minutes()
                axes[0, column].plot(steps, smooth, **look)
                axes[1, column].plot([minutes[step] for step in steps], smooth, **look)
        axes[0, 0].set_ylabel("training score, mean of 3 batches")
        axes[1, 0].set_ylabel("training score, mean of 3 batches")
        handles = {
            label: line for axis in axes[0] for line, label in zip(*axis.get_legend_handles_labels(), strict=True)
        }
        figure.legend(handles.values(), handles.keys(), loc="lower center", ncols=len(handles))
        figure.tight_layout(rect=(0, 0.06, 1, 1))
        figure.savefig(path, dpi=100)


if __name__ == "__main__":
    main()
