"""Intervals over problems and seeds, and pass@k."""

import math
from collections.abc import Sequence
from functools import partial
from typing import Any

import mpmath
import numpy as np
import pandas as pd

LEVEL = 0.95
ROUNDING = 1e-12  # a standard error below is that of equal values


def by_problem(samples: Any) -> pd.DataFrame:
    """Return sum, size and mean of the accuracies of each problem's samples."""
    return samples.groupby("problem", sort=False)["acc"].agg(["sum", "size", "mean"])


def pass_at(samples: Any, k: int) -> float:
    """Return the mean over problems of 1 - C(n-c, k) / C(n, k), the unbiased estimate of P(one of k is correct).

    NaN if a problem has fewer than k samples, or a sample is neither right nor wrong (a custom reward).
    """
    problems: Any = by_problem(samples)
    if not samples["acc"].isin([0, 1]).all() or not problems["size"].min() >= k:
        return math.nan
    return float(np.mean([1 - math.comb(int(n - c), k) / math.comb(int(n), k) for c, n, _ in problems.to_numpy()]))


def half_width(errors: Sequence[tuple[float, float]]) -> float:
    """Return half the interval of a sum of independent means, by the standard error and degrees of freedom of each.

    Infinity where nothing tells the noise: of equal values, or with an infinite error. Student's quantile is mpmath's:
    scipy would be a further dependency, of 35 MB.
    """
    variance = sum(error**2 for error, _ in errors)
    if not ROUNDING**2 < variance < math.inf:
        return math.inf
    freedom = variance**2 / sum(error**4 / freedom for error, freedom in errors)  # Welch
    beyond = partial(mpmath.betainc, freedom / 2, 0.5, 0, regularized=True)  # the share of both tails
    quantile = mpmath.findroot(lambda t: beyond(freedom / (freedom + t * t)) - (1 - LEVEL), 1.5)
    return float(quantile) * math.sqrt(variance)
