"""Our bootstrap of validation metrics against verl's own."""

import numpy as np
import pytest
from verl.trainer.ppo import metric_utils

from rpg.verl_plugin import bootstrap

VERLS = metric_utils.bootstrap_metric  # before anything here replaces it


def validation(answers: int) -> tuple[list[str], list[str], dict[str, list]]:
    """Sources, uids and variables of 12 problems with so many answers; two that judge, and one that is voted on."""
    draw = np.random.RandomState(answers)
    count = 12 * answers
    right = draw.rand(count) < 0.4
    return (
        ["sums"] * count,
        [f"problem {number // answers}" for number in range(count)],
        {
            "acc": right.tolist(),
            "score": np.where(right, draw.rand(count), -1.0).tolist(),
            "pred": [str(draw.randint(3)) for _ in range(count)],
        },
    )


@pytest.mark.parametrize("answers", [1, 2, 4, 5, 8])
def test_every_metric_is_verls_to_the_bit(answers, monkeypatch):
    found = []
    for function in (VERLS, bootstrap.bootstrap_metric):
        monkeypatch.setattr(metric_utils, "bootstrap_metric", function)
        metrics = metric_utils.process_validation_metrics(*validation(answers))
        found.append({(s, v, m): x for s, by in metrics.items() for v, ms in by.items() for m, x in ms.items()})
        found.append(np.random.rand())  # the global generator is left in the same state
    theirs, state, ours, our_state = found
    assert ours == theirs
    assert answers == 1 or (our_state == state and any("maj@" in metric for _, _, metric in ours))


def test_a_subset_is_reduced_once(monkeypatch):
    asked = []

    def reduce(sample: np.ndarray) -> float:
        asked.append(tuple(sample))
        return float(sum(sample))

    assert bootstrap.bootstrap_metric([1.0, 2.0, 3.0, 4.0], 2, [reduce]) == VERLS([1.0, 2.0, 3.0, 4.0], 2, [sum])
    assert len(asked) == len(set(asked)) == 16


def test_installed_it_is_what_verl_calls(monkeypatch):
    monkeypatch.setattr(metric_utils, "bootstrap_metric", VERLS)
    bootstrap.install()
    assert metric_utils.process_validation_metrics.__globals__["bootstrap_metric"] is bootstrap.bootstrap_metric
