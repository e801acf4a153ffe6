"""Code shared by the studies: runs with outcomes, least squares, Markdown tables, pictures."""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import numpy
import pandas

matplotlib.use("Agg")
from matplotlib import pyplot

from rpg.results import figures
from rpg.results.formats import grid

RESULTS = Path(__file__).resolve().parents[2] / "docs/results"
SCORE, ACCURACY = "training score", "accuracy"


def load(study: str) -> tuple[pandas.DataFrame, pandas.DataFrame]:
    """Return runs and metrics of docs/results/<study>.parquet.

    Runs: one line each with method, settings, arm (the directory without the seed), seed, training score (mean over
    batches) and last accuracy. Metrics: indexed by run and step; NaN if not logged.
    """
    logged = pandas.read_parquet(RESULTS / f"{study}.parquet")
    first = logged.groupby("run").first()
    settings = pandas.json_normalize(first.pop("settings").map(json.loads).tolist(), max_level=0).set_index(first.index)
    metrics = logged.set_index(["run", "step"]).drop(columns=["method", "settings"]).astype(float)
    by_run = metrics.groupby("run")
    outcomes = {
        "method": first.method,
        SCORE: by_run["critic/score/mean"].mean(),
        ACCURACY: by_run["accuracy"].last(),
    }
    runs = pandas.DataFrame(outcomes).join(settings)
    runs["arm"] = runs.index.str.rpartition("-seed").get_level_values(0)
    return runs.rename(columns={"data.seed": "seed"}), metrics


def untrained_accuracy() -> float:
    """Return the mean accuracy over 512 problems before training, of the study's runs that validate it."""
    return pandas.read_parquet(RESULTS / "study.parquet", filters=[("step", "==", 0)]).accuracy.mean()


class Estimate(NamedTuple):
    """A difference, its standard error and the error's degrees of freedom."""

    value: float
    error: float
    freedom: int

    def __str__(self) -> str:
        return f"{self.value:+.3f} ± {self.error:.3f}"


def difference(runs: pandas.DataFrame, by: str, plus: Sequence[str], minus: Sequence[str], outcome: str) -> Estimate:
    """Return the mean effect of the cells `plus` minus that of `minus`, in a model of cell and seed effects.

    The outcome is fitted by least squares as the sum of the effects of the column `by` and of the seed.
    """
    cells = pandas.get_dummies(runs[by], dtype=float)
    design = numpy.hstack([cells, pandas.get_dummies(runs.seed, drop_first=True, dtype=float)])
    values = runs[outcome].to_numpy()
    fitted, *_ = numpy.linalg.lstsq(design, values, rcond=None)
    freedom = len(values) - design.shape[1]
    variance = ((values - design @ fitted) ** 2).sum() / freedom
    weights = numpy.zeros(design.shape[1])
    for side, sign in ((plus, 1), (minus, -1)):
        present = [cells.columns.get_loc(name) for name in side if name in cells]
        weights[present] = sign / len(present)
    error = (variance * weights @ numpy.linalg.inv(design.T @ design) @ weights) ** 0.5
    return Estimate(weights @ fitted, error, freedom)


def complete_seeds(runs: pandas.DataFrame, arms: Iterable[str]) -> pandas.DataFrame:
    """Return the runs of these arms, for seeds that are finished in all of them."""
    runs = runs[runs.arm.isin(list(arms))]
    return runs[runs.groupby("seed").arm.transform("nunique") == runs.arm.nunique()]


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]], texts: int = 1) -> str:
    """Return a table; columns from the `texts`-th on are numbers and aligned to the right."""
    return "\n".join(grid(head, rows, texts))


@contextmanager
def picture(path: Path, rows: int = 1, columns: int = 1, **options: Any) -> Iterator[Any]:
    """Yield the axes of a figure and write it at the end."""
    with pyplot.rc_context({**figures.STYLE, "text.parse_math": True}):  # tick labels of a logarithmic axis
        figure, axes = pyplot.subplots(rows, columns, **options)
        yield axes
        figure.tight_layout()
        figure.savefig(path, dpi=90)
        pyplot.close(figure)
