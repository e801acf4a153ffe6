"""Validation statistics on whole arrays are verl's, to the last bit."""

import random

import pytest
from verl.trainer.ppo import metric_utils

from rpg.verl_plugin.patches.bootstrap import bootstrap_metric


@pytest.mark.parametrize("answers", [2, 4, 7])
def test_statistics_are_verls(monkeypatch, answers):
    draw = random.Random(answers)
    problems, count = 5, 5 * answers
    uids = [str(number // answers) for number in range(count)]
    values = {
        "acc": [draw.random() < 0.5 for _ in range(count)],
        "score": [draw.choice((-1, 0, 1.5)) for _ in range(count)],
        # a problem whose majority ties, one with a missing answer
        "pred": [draw.choice("123") for _ in range(count - 1)] + [None],
    }
    expected = {("sums", str(number)): answers for number in range(problems)}

    def statistics() -> dict:
        return metric_utils.process_validation_metrics(["sums"] * count, uids, values, expected_acc_counts=expected)

    original = statistics()
    monkeypatch.setattr(metric_utils, "bootstrap_metric", bootstrap_metric)
    assert statistics() == original
    assert {f"{name}@{answers}/mean" for name in ("best", "worst", "maj")} <= original["sums"]["acc"].keys()
