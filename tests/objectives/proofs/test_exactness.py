"""Unclipped losses: the gradient of the expected loss is -grad J, over random policies."""

import math

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rpg.objectives import LossSpec, token_loss
from rpg.objectives.losses import DIVERGENCES
from rpg.objectives.proofs import exact as enumerated
from tests.objectives.formulas import DEFINITIONS, NORMALIZED

UNCLIPPED = [f"rpg_{d}" for d in DIVERGENCES] + [f"rpg_rf_{d}" for d in DIVERGENCES]

# Logits within +-4 and at most 8 outcomes keep every log-ratio below 12, inside the clamp at 20, and every
# gradient component below about 100: rounding is some 1e-14, so 1e-10 only passes for the right formula.
TOLERANCE = 1e-10
logit = st.floats(-4, 4, width=32)
advantage = st.floats(-10, 10, width=32)


@st.composite
def problems(draw):
    n = draw(st.integers(2, 8))

    def vector(elements):
        return torch.tensor(draw(st.lists(elements, min_size=n, max_size=n)), dtype=torch.float64)

    z_old = draw(st.sampled_from([1.0, 0.4, 1.7, 3.0]))
    log_old = vector(logit).log_softmax(0) + math.log(z_old)
    log_ref = log_old if draw(st.booleans()) else vector(logit).log_softmax(0)
    return enumerated.Problem(
        logits=vector(logit),
        log_old=log_old,
        log_ref=log_ref,
        advantages=vector(advantage),
        kl_coef=draw(st.floats(0, 3)),
        z_old=z_old,
    )


def exact_minus_grad_j(problem, name):
    """Return -grad J by autograd, with J written independently of rpg.objectives.proofs.exact."""
    theta = problem.logits.clone().requires_grad_()
    p = torch.softmax(theta, 0)
    q = problem.log_ref.exp()
    kl = DEFINITIONS[name](p, q).sum()
    ((p * problem.advantages).sum() - problem.kl_coef * kl).neg().backward()
    return theta.grad, kl.item()


@settings(max_examples=250, deadline=None)
@given(problem=problems())
def test_expected_gradient_is_minus_grad_j(problem):
    pi_old = problem.log_old.exp()
    for name in UNCLIPPED:
        divergence = LossSpec.parse(name).divergence
        # FKL and RKL have no Z in the table: their sums run over pi_old's own masses. For the other two the
        # samples come from pi_old / Z_old and the loss carries the factor Z_old.
        normalized = divergence in NORMALIZED
        measure = pi_old if normalized else pi_old / problem.z_old
        spec = LossSpec.parse(name, kl_coef=problem.kl_coef, clip_scope="none", z_old=problem.z_old)
        theta = problem.logits.clone().requires_grad_()
        loss, stats = token_loss(
            spec,
            log_prob=theta.log_softmax(0),
            old_log_prob=problem.log_old,
            advantages=problem.advantages,
            ref_log_prob=None if problem.log_ref is problem.log_old else problem.log_ref,
        )
        (measure * loss).sum().backward()
        expected, kl = exact_minus_grad_j(problem, divergence)
        assert (theta.grad - expected).abs().max().item() <= TOLERANCE, name
        assert abs((measure * stats.kl).sum().item() - kl) <= TOLERANCE, name
