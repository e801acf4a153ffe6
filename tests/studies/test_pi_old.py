"""Samples of an older policy: the weights are verl's, `behavior` and `decoupled` are exact per token."""

import math

import pytest
import torch

from rpg.names import DIVERGENCES
from rpg.objectives import LossSpec
from rpg.objectives.proofs import exact
from scripts.studies.lab.bias import Row, old_policy

pytestmark = pytest.mark.full  # the laboratory, no part of the product
torch.set_num_threads(1)


@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("threshold", [2.0, 5.0, 1e9])
def test_the_weights_are_verls(level, threshold):
    from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights

    generator = torch.Generator().manual_seed(0)
    behavior = -torch.rand(6, 9, generator=generator) * 4
    anchor = behavior + torch.randn(6, 9, generator=generator)
    anchor[0] += 30.0  # beyond the clamp at 20
    old, weights = old_policy(Row("decoupled", level=level, threshold=threshold), behavior, anchor)
    theirs, _ = compute_rollout_correction_weights(
        anchor - behavior, torch.ones_like(anchor), rollout_is=level, rollout_is_threshold=threshold
    )
    assert (weights > 1).any()
    torch.testing.assert_close(weights, theirs, rtol=1e-5, atol=0)
    assert old is anchor


@pytest.mark.parametrize("name", [f"{form}_{d}" for form in ("rpg", "rpg_rf") for d in DIVERGENCES])
def test_behavior_and_decoupled_are_exact_per_token_and_recomputed_is_not(name):
    """At a staleness of 1 in the logits, with another reference; a weight that is cut is not exact, either."""
    generator = torch.Generator().manual_seed(0)
    problem = exact.random_problem(generator, 12, 0.1, own_reference=True)
    behavior = (problem.logits + torch.randn(12, generator=generator, dtype=torch.float64)).log_softmax(0)
    spec, errors = LossSpec.parse(name, kl_coef=0.1, clip_scope="none"), {}
    for row in (Row("behavior"), Row("decoupled"), Row("decoupled", threshold=1.2), Row("recomputed")):
        old, weights = old_policy(row, behavior.unsqueeze(1), problem.log_old.unsqueeze(1))

        def loss(problem, log_prob, weights=weights):
            return exact.spec_loss(spec)(problem, log_prob) * weights.squeeze(1)

        of_old = exact.Problem(problem.logits, old.squeeze(1), problem.log_ref, problem.advantages, 0.1)
        gradient = exact.loss_gradient(of_old, loss, normalized=True, log_sampler=behavior)
        errors[row] = (gradient + exact.objective_gradient(of_old, spec.divergence)).abs().max().item()
    exact_ones = {row for row, error in errors.items() if error < 1e-10}
    assert exact_ones == {Row("behavior"), Row("decoupled", threshold=math.inf)}
    assert min(errors[row] for row in errors.keys() - exact_ones) > 1e-3
