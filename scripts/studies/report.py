"""What the reports of the studies share: least squares with their errors, markdown tables, pictures."""

import sys
from collections.abc import Iterable, Iterator, Sequence
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

from rpg.results import figures
from rpg.results.compare_command import t_quantile
from rpg.results.runs import is_accuracy

SCORE = "training score"


def arguments() -> tuple[pandas.DataFrame, pandas.DataFrame, Path]:
    """Runs and metrics of the study that the command line names, and where the report goes."""
    study, out = map(Path, sys.argv[1:])
    out.mkdir(parents=True, exist_ok=True)
    return compact.runs_of(study), compact.metrics_of(study), out


def outcomes(metrics: pandas.DataFrame, last: str) -> pandas.DataFrame:
    """A line for each run: its training score, its last accuracy (column `last`), and how it trained."""
    by_run = metrics.groupby("run")
    return pandas.DataFrame(
        {
            SCORE: by_run["critic/score/mean"].mean(),
            last: accuracies(metrics).groupby("run").last(),
            "entropy": by_run["actor/entropy"].last(),
            "tokens": by_run["response_length/mean"].last(),
            "largest KL": by_run["training/off_policy/kl"].max(),
            "lowest ess": by_run["training/off_policy/ess"].min(),
            "clipped": by_run["actor/pg_clipfrac"].median(),
        }
    )


def accuracies(metrics: pandas.DataFrame) -> pandas.Series:
    """The accuracy of each validation."""
    [name] = filter(is_accuracy, metrics)
    return metrics[name].dropna()


class Estimate(NamedTuple):
    """A difference, its standard error, and the degrees of freedom of the error."""

    value: float
    error: float
    freedom: int

    def __str__(self) -> str:
        return f"{self.value:+.3f} ± {self.error:.3f}"

    @property
    def reach(self) -> float:
        """Half of the 95 % interval."""
        return t_quantile(0.975, self.freedom) * self.error

    @property
    def detectable(self) -> float:
        """The true difference that a two-sided test at 5 % finds in 90 % of studies like this one."""
        return self.reach + t_quantile(0.9, self.freedom) * self.error


def difference(
    runs: pandas.DataFrame, by: str, plus: Sequence[str], minus: Sequence[str], outcome: str, times: int = 1
) -> Estimate:
    """Mean effect of the cells `plus` less that of `minus`, `times` over, in a model of cell and seed effects."""
    cells, design, fitted, variance, freedom = fit(runs, by, "seed", outcome)
    weights = numpy.zeros(design.shape[1])
    for side, sign in ((plus, times), (minus, -times)):
        present = [name for name in side if name in cells]
        for name in present:
            weights[cells.index(name)] = sign / len(present)
    error = (variance * weights @ numpy.linalg.inv(design.T @ design) @ weights) ** 0.5
    return Estimate(weights @ fitted, error, freedom)


def fit(runs: pandas.DataFrame, by: str, block: str, outcome: str) -> tuple[list[str], Any, Any, float, int]:
    """Least squares of an outcome as the sum of the effects of two columns.

    Returns the cells of `by`, the design (cells first), its coefficients, the residual's variance and its degrees of
    freedom.
    """
    cells = pandas.get_dummies(runs[by], dtype=float)
    design = numpy.hstack([cells, pandas.get_dummies(runs[block], drop_first=True, dtype=float)])
    values = runs[outcome].to_numpy()
    fitted, *_ = numpy.linalg.lstsq(design, values, rcond=None)
    freedom = len(values) - design.shape[1]
    return list(cells), design, fitted, ((values - design @ fitted) ** 2).sum() / freedom, freedom


def complete_seeds(runs: pandas.DataFrame, by: str, cells: int) -> pandas.DataFrame:
    """The runs of those seeds that all cells have finished."""
    return runs[runs.groupby("seed")[by].transform("nunique") == cells]


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> list[str]:
    """Lines of a table; columns from the `texts`-th on are numbers and aligned to the right."""
    rule = ["---" if column < texts else "--:" for column in range(len(head))]
    return [f"| {' | '.join(cells)} |" for cells in (head, rule, *rows)]


def write(path: Path, *parts: Iterable[str]) -> None:
    """Write a page of parts with an empty line between them."""
    path.write_text("\n\n".join("\n".join(part) for part in parts) + "\n")


@contextmanager
def picture(path: Path, rows: int = 1, columns: int = 1, dpi: int = 90, **options: Any) -> Iterator[Any]:
    """The axes of a figure that is written at the end."""
    with pyplot.rc_context(figures.STYLE):
        figure, axes = pyplot.subplots(rows, columns, **options)
        yield axes
        if not figure.get_layout_engine():  # neither `layout` nor a tight_layout of the body
            figure.tight_layout()
        figure.savefig(path, dpi=dpi)


def band(axis: Axes, values: pandas.DataFrame, alpha: float = 0.12, **look: Any) -> None:
    """A line for the mean of the columns, in a band of its standard error."""
    mean, error = values.mean(axis=1), values.sem(axis=1)
    axis.plot(mean.index, mean, **look)
    axis.fill_between(mean.index, mean - error, mean + error, color=look["color"], alpha=alpha, linewidth=0)


def points(axis: Axes, values: pandas.Series, place: float, reach: float, colour: str, alpha: float = 0.45) -> None:
    """Runs as dots in a row, and their mean with an interval."""
    axis.plot(values, [place] * len(values), "o", color=colour, alpha=alpha, markersize=5)
    axis.errorbar(values.mean(), place, xerr=reach, fmt="D", color=colour, capsize=3, markersize=5)
