"""Code shared by the studies' reports: runs with outcomes, least squares, markdown tables, pictures."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import compact
import matplotlib
import numpy
import pandas

matplotlib.use("Agg")
from matplotlib import pyplot
from matplotlib.axes import Axes

from rpg.logged import is_validation
from rpg.results import figures
from rpg.results.comparison import t_quantile
from rpg.results.formats import grid

SCORE = "training score"


def load(accuracy: str) -> tuple[pandas.DataFrame, pandas.DataFrame, Path]:
    """Return runs and metrics of the study named on the command line, and the report's directory.

    Runs: one line each with settings, arm (the directory without the seed), seed, training score, last accuracy (column
    `accuracy`) and summaries of its training.
    """
    study, out = map(Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    metrics, settings = compact.metrics_of(study), compact.runs_of(study)
    by_run = metrics.groupby("run")
    outcomes = {
        SCORE: by_run["critic/score/mean"].mean(),
        accuracy: accuracies(metrics).groupby("run").last(),
        "entropy": by_run["actor/entropy"].last(),
        "tokens": by_run["response_length/mean"].last(),
        "largest KL": by_run["training/off_policy/kl"].max(),
        "lowest ess": by_run["training/off_policy/ess"].min(),
        "clipped": by_run["actor/pg_clipfrac"].median(),
    }
    runs = pandas.DataFrame(outcomes).join(settings)
    runs["arm"] = runs.index.str.rpartition("-seed").get_level_values(0)
    return runs.rename(columns={"data.seed": "seed"}), metrics, out


def accuracies(metrics: pandas.DataFrame) -> pandas.Series:
    """Return the accuracy of each validation."""
    [name] = filter(is_validation, metrics)
    return metrics[name].dropna()


class Estimate(NamedTuple):
    """A difference, its standard error and the error's degrees of freedom."""

    value: float
    error: float
    freedom: int

    def __str__(self) -> str:
        return f"{self.value:+.3f} ± {self.error:.3f}"

    @property
    def reach(self) -> float:
        """Half the width of the 95 % interval."""
        return t_quantile(0.975, self.freedom) * self.error

    @property
    def detectable(self) -> float:
        """The true difference that a two-sided test at 5 % finds in 90 % of studies like this one."""
        return self.reach + t_quantile(0.9, self.freedom) * self.error

    def cells(self) -> list[str]:
        """Table cells: the difference and its 90 % power."""
        return [str(self), f"{self.detectable:.3f}"]


def difference(
    runs: pandas.DataFrame, by: str, plus: Sequence[str], minus: Sequence[str], outcome: str, times: int = 1
) -> Estimate:
    """Return `times` the mean effect of the cells `plus` minus that of `minus`, in a model of cell and seed effects."""
    cells, design, fitted, variance, freedom = fit(runs, by, "seed", outcome)
    weights = numpy.zeros(design.shape[1])
    for side, sign in ((plus, times), (minus, -times)):
        present = [name for name in side if name in cells]
        for name in present:
            weights[cells.index(name)] = sign / len(present)
    error = (variance * weights @ numpy.linalg.inv(design.T @ design) @ weights) ** 0.5
    return Estimate(weights @ fitted, error, freedom)


def fit(runs: pandas.DataFrame, by: str, block: str, outcome: str) -> tuple[list[str], Any, Any, float, int]:
    """Fit an outcome by least squares as the sum of the effects of two columns.

    Returns the cells of `by`, the design (cells first), its coefficients, the residual's variance and its degrees of
    freedom.
    """
    cells = pandas.get_dummies(runs[by], dtype=float)
    design = numpy.hstack([cells, pandas.get_dummies(runs[block], drop_first=True, dtype=float)])
    values = runs[outcome].to_numpy()
    fitted, *_ = numpy.linalg.lstsq(design, values, rcond=None)
    freedom = len(values) - design.shape[1]
    return list(cells), design, fitted, ((values - design @ fitted) ** 2).sum() / freedom, freedom


def error_of_mean(runs: pandas.DataFrame, outcome: str) -> Estimate:
    """Return the standard error of an arm's mean, from the residual of arm and seed effects."""
    _, _, _, variance, freedom = fit(runs, "arm", "seed", outcome)
    return Estimate(0.0, (variance / runs.seed.nunique()) ** 0.5, freedom)


def complete_seeds(runs: pandas.DataFrame, arms: Iterable[str]) -> pandas.DataFrame:
    """Return the runs of these arms, for seeds that are finished in all of them."""
    runs = runs[runs.arm.isin(list(arms))]
    return runs[runs.groupby("seed").arm.transform("nunique") == runs.arm.nunique()]


def digits(values: Mapping[Any, float] | pandas.Series, decimals: Mapping[str, int]) -> list[str]:
    """Return the values of these columns, rounded."""
    return [f"{values[key]:.{places}f}" for key, places in decimals.items()]


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    """Return a table; columns from the `texts`-th on are numbers and aligned to the right."""
    return "\n".join(grid(head, rows, texts))


def write(path: Path, *parts: str) -> None:
    """Write a page whose parts are separated by empty lines."""
    path.write_text("\n\n".join(parts) + "\n")


@contextmanager
def picture(path: Path, rows: int = 1, columns: int = 1, dpi: int = 90, **options: Any) -> Iterator[Any]:
    """Yield the axes of a figure and write it at the end."""
    with pyplot.rc_context(figures.OWN_LABELS_STYLE):
        figure, axes = pyplot.subplots(rows, columns, **options)
        yield axes
        if not figure.get_layout_engine():  # no `layout` was given
            figure.tight_layout()
        figure.savefig(path, dpi=dpi)


Look = Mapping[str, Any]  # of a line: color, optionally linestyle and label


def bands(
    axis: Axes, title: str, values: pandas.Series, looks: Iterable[tuple[pandas.Index, Look]], alpha: float = 0.12
) -> None:
    """Draw each group's mean with a band of its standard error; values are indexed by run and step."""
    table = values.unstack("run")
    for runs, look in looks:
        mean, error = table[runs].mean(axis=1), table[runs].sem(axis=1)
        axis.plot(mean.index, mean, **look)
        axis.fill_between(mean.index, mean - error, mean + error, color=look["color"], alpha=alpha, linewidth=0)
    axis.set_title(title, loc="left")
    axis.set_xlabel("batch")


def points(axis: Axes, values: pandas.Series, place: float, reach: float, colour: str) -> None:
    """Draw runs as dots in a row, and their mean with an interval."""
    axis.plot(values, [place] * len(values), "o", color=colour, alpha=0.45, markersize=5)
    axis.errorbar(values.mean(), place, xerr=reach, fmt="D", color=colour, capsize=3, markersize=5)


def name_rows(axis: Axes, labels: Sequence[str]) -> None:
    """Label the rows, the first on top."""
    axis.set_yticks(range(len(labels)), labels)
    axis.set_ylim(len(labels) - 0.5, -0.5)
