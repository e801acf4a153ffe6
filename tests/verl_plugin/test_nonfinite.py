"""Skipped steps and metrics that are not finite; test_actor_loss.py and test_worker.py have the loss."""

import json
import math

import pytest
import torch
from tensordict import NonTensorStack, TensorDict

from rpg.files.atomic import SKIPPED
from rpg.verl_plugin import nonfinite
from rpg.verl_plugin.engine import StepAwareEngine
from rpg.verl_plugin.nonfinite import StepGuard


def nested(rows: list[list[float]]) -> torch.Tensor:
    return torch.nested.as_nested_tensor([torch.tensor(row) for row in rows], layout=torch.jagged)


def test_three_in_a_row_end_the_run(tmp_path):
    rows = TensorDict(
        {
            "old_log_probs": nested([[0.0, math.nan], [0.0]]),
            "advantages": nested([[1.0, math.inf], [-math.inf]]),
            "global_steps": torch.tensor([7, 7]),
            "uid": NonTensorStack("a", "b"),
            "raw_prompt": NonTensorStack(*[[{"role": "user", "content": text}] for text in ("1 + 1?", "2 + 2?")]),
        },
        batch_size=2,
    )
    guard = StepGuard(tmp_path / "run", limit=3)
    for mini_batch in (0, 1):
        guard.record_skip(rows, mini_batch, 0)
    guard.record_step()
    assert (guard.skipped, guard.in_a_row) == (2, 0)
    for mini_batch in (4, 5):
        guard.record_skip(rows, mini_batch, 1)
    with pytest.raises(FloatingPointError, match="3 optimizer steps in a row"):
        guard.record_skip(rows, 6, 1)
    notes = [json.loads(line) for line in (tmp_path / "run" / SKIPPED).read_text().splitlines()]
    assert len(notes) == 5
    assert notes[-1] | {"time": ""} == {
        "time": "",
        "mini_batch": 6,
        "rank": 1,
        "not_finite": {"old_log_probs": 1, "advantages": 2},
        "step": 7,
        "problems": {"a": "1 + 1?", "b": "2 + 2?"},
    }


def test_metrics_that_are_not_finite_go():
    given = {"loss": [1.0, math.nan], "grad_norm": [math.inf], "lr": [1e-6]}
    assert nonfinite.finite(given) == {"loss": [1.0], "lr": [1e-6]}


def test_the_engine_remembers():
    class Engine:
        norms = iter([1.0, math.nan, math.inf, 0.0])

        def optimizer_step(self):
            return next(self.norms)

    engine = type("Aware", (StepAwareEngine, Engine), {})()
    assert [(engine.optimizer_step(), engine.last_step_skipped)[1] for _ in range(4)] == [False, True, True, False]
