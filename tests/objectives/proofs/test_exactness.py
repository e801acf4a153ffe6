"""Unclipped losses: the gradient of the expected loss is -grad J, over random policies."""

import math
from dataclasses import replace

import pytest
import torch

from rpg.names import DIVERGENCES
from rpg.objectives import LossSpec, token_loss
from rpg.objectives.proofs.exact import Problem, random_problem
from tests.objectives.formulas import DEFINITIONS, NORMALIZED

# Log-ratios are below 12, inside the clamp at 20, and every gradient component below about 100: rounding is some 1e-14,
# so 1e-10 only passes for the right formula.
TOLERANCE = 1e-10


def minus_grad_j(problem: Problem, divergence: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Return -grad J by autograd, and D, with J written independently of rpg.objectives.proofs.exact."""
    theta = problem.logits.clone().requires_grad_()
    p = torch.softmax(theta, 0)
    kl = DEFINITIONS[divergence](p, problem.log_ref.exp()).sum()
    ((p * problem.advantages).sum() - problem.kl_coef * kl).neg().backward()
    return theta.grad, kl.detach()


@pytest.mark.parametrize("z_old", [1.0, 0.4, 3.0])
@pytest.mark.parametrize("estimator", ["rpg", "rpg_rf"])
@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_expected_gradient_is_minus_grad_j(divergence, estimator, z_old):
    generator = torch.Generator().manual_seed(0)
    for number in range(40):
        outcomes, kl_coef = 2 + number % 7, number / 13
        problem = random_problem(generator, outcomes, kl_coef, own_reference=bool(number % 2))
        problem = replace(problem, log_old=problem.log_old + math.log(z_old), advantages=10 * problem.advantages)
        if not number % 2:  # the reference is pi_old
            problem = replace(problem, log_ref=problem.log_old)
        spec = LossSpec.parse(f"{estimator}_{divergence}", kl_coef=kl_coef, clip_scope="none", z_old=z_old)
        theta = problem.logits.clone().requires_grad_()
        loss, stats = token_loss(
            spec,
            log_prob=theta.log_softmax(0),
            old_log_prob=problem.log_old,
            advantages=problem.advantages,
            ref_log_prob=problem.log_ref if number % 2 else None,
        )
        # FKL and RKL have no Z in the table: their sums run over pi_old's own masses. For the other two the samples
        # come from pi_old / Z_old and the loss carries the factor Z_old.
        measure = problem.log_old.exp() / (1.0 if divergence in NORMALIZED else z_old)
        (measure * loss).sum().backward()
        expected, kl = minus_grad_j(problem, divergence)
        assert (theta.grad - expected).abs().max() <= TOLERANCE
        assert ((measure * stats.kl).sum() - kl).abs() <= TOLERANCE
