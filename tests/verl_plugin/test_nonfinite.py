"""What is not finite: the loss that takes it, the count of steps, the metrics, the weights. See test_worker.py too."""

import json
import math

import pytest
import torch
from tensordict import TensorDict

from rpg.files.whole import SKIPPED
from rpg.verl_plugin import nonfinite
from rpg.verl_plugin.nonfinite import FiniteLoss, SkippedSteps, StepAwareEngine


def actor_loss(model_output, data, dp_group=None):
    """As verl's: refuses what is not finite where rpg's losses do, else takes it as verl's own losses do."""
    log_prob = model_output["log_probs"]
    log_prob = log_prob.values() if log_prob.is_nested else log_prob
    old = data["old_log_probs"].values() if data["old_log_probs"].is_nested else data["old_log_probs"]
    if data["strict"].all() and not old.isfinite().all():
        raise FloatingPointError("NaN or infinity in: old_log_prob")
    loss = -(torch.exp(log_prob - old) * data["advantages"].reshape(old.shape)).mean()
    return loss, {"actor/ppo_kl": (old - log_prob).mean().item()}


def batch(nested: bool, strict: bool, bad: float | None):
    weights = torch.full((6,), -1.0, requires_grad=True)
    log_prob, old = weights.reshape(2, 3), torch.full((2, 3), -1.5)
    if bad is not None:
        old[1, 2] = bad
    if nested:
        offsets = torch.tensor([0, 3, 6])
        log_prob = torch.nested.nested_tensor_from_jagged(log_prob.reshape(-1), offsets)
        old = torch.nested.nested_tensor_from_jagged(old.reshape(-1), offsets)
    fields = {"old_log_probs": old, "advantages": torch.ones(2, 3), "strict": torch.full((2, 1), strict)}
    return weights, {"log_probs": log_prob}, TensorDict(fields, batch_size=2)


@pytest.mark.parametrize("nested", [False, True])
@pytest.mark.parametrize("strict", [False, True], ids=["verl's loss", "rpg's loss"])
@pytest.mark.parametrize("bad", [math.nan, -math.inf])
def test_a_loss_that_is_not_finite_has_a_gradient_that_says_so(nested, strict, bad):
    weights, output, data = batch(nested, strict, bad)
    loss, metrics = FiniteLoss(actor_loss)(output, data)
    loss.backward()
    assert weights.grad.isnan().all()
    assert math.isfinite(metrics["actor/ppo_kl"])
    assert not data["old_log_probs"].isfinite().all() if not nested else True  # the batch stays as it was


@pytest.mark.parametrize("nested", [False, True])
def test_a_finite_loss_is_verls_own(nested):
    weights, output, data = batch(nested, True, None)
    loss, metrics = FiniteLoss(actor_loss)(output, data)
    same, said = actor_loss(output, data)
    assert loss.item() == same.item()
    assert metrics == said
    loss.backward()
    assert weights.grad.isfinite().all()


def rows() -> TensorDict:
    from tensordict import NonTensorStack

    return TensorDict(
        {
            "old_log_probs": torch.tensor([[0.0, math.nan], [0.0, 0.0]]),
            "advantages": torch.tensor([[1.0, math.inf], [-math.inf, 0.0]]),
            "global_steps": torch.tensor([7, 7]),
            "uid": NonTensorStack("a", "b"),
            "raw_prompt": NonTensorStack(*[[{"role": "user", "content": text}] for text in ("1 + 1?", "2 + 2?")]),
        },
        batch_size=2,
    )


def test_three_in_a_row_end_the_run(tmp_path):
    steps = SkippedSteps(tmp_path / "run", limit=3)
    for _ in range(2):
        steps.skipped(rows(), 0, 0)
        steps.skipped(rows(), 1, 0)
        steps.taken()
    assert (steps.count, steps.in_a_row) == (4, 0)
    steps.skipped(rows(), 4, 1)
    steps.skipped(rows(), 5, 1)
    with pytest.raises(FloatingPointError, match="3 optimizer steps in a row"):
        steps.skipped(rows(), 6, 1)
    notes = [json.loads(line) for line in (tmp_path / "run" / SKIPPED).read_text().splitlines()]
    assert len(notes) == 7
    assert notes[-1] | {"time": ""} == {
        "time": "",
        "mini_batch": 6,
        "rank": 1,
        "not_finite": {"old_log_probs": 1, "advantages": 2},
        "step": 7,
        "problems": {"a": "1 + 1?", "b": "2 + 2?"},
    }


def test_metrics_that_are_not_finite_go():
    given = {"loss": [1.0, math.nan], "grad_norm": [math.inf], "lr": 1e-6, "actor/pg_loss": math.nan, "perf": [0.0]}
    assert nonfinite.finite(given) == {"loss": [1.0], "lr": 1e-6, "perf": [0.0]}


def test_weights():
    model = torch.nn.Linear(2, 2)
    nonfinite.require_finite_weights(model)
    with torch.no_grad():
        model.bias[1] = math.inf
    with pytest.raises(FloatingPointError, match="1 of 2 parameters are not finite, bias among them"):
        nonfinite.require_finite_weights(model)


def test_the_engine_remembers():
    class Engine:
        norms = iter([1.0, math.nan, math.inf, 0.0])

        def optimizer_step(self):
            return next(self.norms)

    engine = type("Aware", (StepAwareEngine, Engine), {})()
    assert [(engine.optimizer_step(), engine.last_step_skipped)[1] for _ in range(4)] == [False, True, True, False]
