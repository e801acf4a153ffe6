"""pass@k against enumeration, and intervals against known cases."""

import itertools

import numpy as np
import pandas as pd
import pytest

from rpg.results.statistics import half_width, pass_at


def test_pass_at_k_is_the_share_of_subsets_with_a_correct_one():
    for n, c, k in itertools.product(range(1, 7), repeat=3):
        if max(c, k) <= n:
            subsets = [any(subset) for subset in itertools.combinations([True] * c + [False] * (n - c), k)]
            samples = pd.DataFrame({"problem": "p", "acc": [1.0] * c + [0.0] * (n - c)})
            assert pass_at(samples, k) == pytest.approx(sum(subsets) / len(subsets)), (n, c, k)


def test_pass_at_k_wants_right_or_wrong_answers_and_enough_of_them():
    samples = pd.DataFrame({"problem": list("ppqq"), "acc": [1.0, 0.0, 0.0, 0.0]})
    assert np.isnan(pass_at(samples, 3))
    assert np.isnan(pass_at(samples.assign(acc=0.5), 1))  # of a custom reward


def test_welchs_interval():
    """tests/results/test_compare.py has Student's."""
    # Welch: (0.5^2 + 0.5^2)^2 / (2 x 0.5^4 / 1) = 2 degrees: 4.302653 x sqrt(0.5) = 3.042435
    assert half_width([(0.5, 1), (0.5, 1)]) == pytest.approx(3.042435, abs=1e-5)
