"""Samples of an older policy: `behavior` and `decoupled` are exact, `recomputed` has a known bias."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rpg.objectives import LossSpec, token_loss
from scripts.studies.lab import pi_old
from scripts.studies.lab.pi_old import old_policy
from tests.objectives.formulas import DEFINITIONS

pytestmark = pytest.mark.full  # the laboratory, no part of the product
torch.set_num_threads(1)

# Logits within +-3 keep every weight below e^6 twice over and gradients below 1e5: rounding is 1e-11 at most.
TOLERANCE = 1e-10
logit = st.floats(-3, 3, width=32)


@st.composite
def problems(draw):
    """theta, behaviour, anchor, reference or None, advantages, beta."""
    n = draw(st.integers(2, 6))

    def vector():
        return torch.tensor(draw(st.lists(logit, min_size=n, max_size=n)), dtype=torch.float64)

    log_ref = vector().log_softmax(0) if draw(st.booleans()) else None
    return pi_old.Stale(
        vector(), vector().log_softmax(0), vector().log_softmax(0), log_ref, vector(), draw(st.floats(0, 2))
    )


def minus_grad_j(theta, log_ref, advantages, beta, divergence, outcome_weight=1.0):
    """-grad of sum_x c(x) [p A - beta d(p, q)] written out here; c = 1 makes it J."""
    theta = theta.clone().requires_grad_()
    p, q = theta.softmax(0), log_ref.exp()
    d = DEFINITIONS[divergence](p, q)
    (gradient,) = torch.autograd.grad(-(outcome_weight * (p * advantages - beta * d)).sum(), theta)
    return gradient


def expected_gradient(problem, choice, name):
    """Return the gradient of sum_x mu(x) weight(x) loss(x), and the reference of the choice's KL."""
    if choice == "behavior":
        old, weights = problem.log_behavior, 1.0
    else:
        old = problem.log_anchor
        weights = (old.exp() / problem.log_behavior.exp()) if choice == "decoupled" else 1.0
    log_ref = old if problem.log_ref is None else problem.log_ref
    theta = problem.logits.clone().requires_grad_()
    loss, _ = token_loss(
        LossSpec.parse(name, kl_coef=problem.kl_coef, clip_scope="none"),
        log_prob=theta.log_softmax(0),
        old_log_prob=old,
        advantages=problem.advantages,
        ref_log_prob=problem.log_ref,
    )
    (gradient,) = torch.autograd.grad((problem.log_behavior.exp() * weights * loss).sum(), theta)
    return gradient, log_ref


@pytest.mark.parametrize("choice", ["behavior", "decoupled"])
@settings(max_examples=100, deadline=None)
@given(problem=problems())
def test_exact_for_every_unclipped_loss(choice, problem):
    for name in pi_old.UNCLIPPED:
        divergence = LossSpec.parse(name).divergence
        gradient, log_ref = expected_gradient(problem, choice, name)
        expected = minus_grad_j(problem.logits, log_ref, problem.advantages, problem.kl_coef, divergence)
        assert (gradient - expected).abs().max().item() <= TOLERANCE, name
        # and what the laboratory measures is the same
        estimate, ours = problem.gradient(choice, LossSpec.parse(name, kl_coef=problem.kl_coef, clip_scope="none"))
        assert (estimate.mean - gradient).abs().max().item() <= TOLERANCE
        assert (ours + expected).abs().max().item() <= TOLERANCE


@settings(max_examples=100, deadline=None)
@given(problem=problems())
def test_recomputed_has_the_gradient_of_another_objective(problem):
    """Its objective is sum_x (mu / anchor)(x) [pi A - beta d(pi, ref)](x), with mu / anchor fixed."""
    ratio = (problem.log_behavior - problem.log_anchor).exp()
    for name in pi_old.UNCLIPPED:
        gradient, log_ref = expected_gradient(problem, "recomputed", name)
        divergence = LossSpec.parse(name).divergence
        of_that = minus_grad_j(problem.logits, log_ref, problem.advantages, problem.kl_coef, divergence, ratio)
        assert (gradient - of_that).abs().max().item() <= TOLERANCE, name


@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("threshold", [2.0, 5.0, 1e9])
def test_the_weights_are_verls(level, threshold):
    from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights

    generator = torch.Generator().manual_seed(0)
    behavior = -torch.rand(6, 9, generator=generator) * 4
    anchor = behavior + torch.randn(6, 9, generator=generator)
    anchor[0] += 30.0  # beyond the clamp at 20
    ours = old_policy("decoupled", behavior=behavior, anchor=anchor, level=level, threshold=threshold)
    theirs, _ = compute_rollout_correction_weights(
        anchor - behavior, torch.ones_like(anchor), rollout_is=level, rollout_is_threshold=threshold
    )
    assert (ours.weights > 1).any()
    torch.testing.assert_close(ours.weights, theirs, rtol=1e-5, atol=0)
    assert ours.log_prob is anchor


def test_what_must_be_exact_is_exact_in_the_table_and_not_without_its_weight(monkeypatch):
    table = pi_old.choice_table(2, 4)
    assert len(table) == len(pi_old.CHOICES) * len(pi_old.STALENESS)
    assert (table.error[table.exact] <= TOLERANCE).all()
    # without the weight, decoupled is recomputed
    monkeypatch.setattr(pi_old, "old_policy", lambda choice, **given: old_policy("recomputed", **given))
    wrong = pi_old.choice_table(2, 4).query("exact and error > @TOLERANCE")
    assert set(wrong.label) == {"behavior", "decoupled"}
    assert set(wrong.staleness) == set(pi_old.STALENESS) - {0.0}
