"""A sampler that is not the policy, before any update: what docs/off-policy.md says."""

import math
from dataclasses import replace

import pytest
import torch

from rpg.names import DIVERGENCES, PI_OLD
from rpg.objectives.proofs.exact import Problem, loss_gradient, spec_loss
from rpg.objectives.spec import LossSpec
from scripts.studies.lab import sampler
from scripts.studies.lab.bias import Row, old_policy

NEVER = -100.0  # log-prob of a token that is left out: its weight of e^20 at most times e^-100 is 0 up to rounding
POLICIES, _, COUNTS = sampler.policies()


def of_prefix(parameter: str, value: float) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Return the first prefix's logits, log mu with NEVER, and grad pi(N) by the logits."""
    logits = POLICIES[0].clone().requires_grad_()
    log_mu = sampler.sampled(parameter, value, POLICIES, COUNTS)[0].log_softmax(0)
    (slope,) = torch.autograd.grad(logits.softmax(0)[log_mu.isfinite()].sum(), logits)
    return POLICIES[0], log_mu.clamp(min=NEVER), slope


def expected_gradient(choice: str, loss: str, problem: Problem, log_mu: torch.Tensor, beta: float = 0.0):
    """Return the expected gradient of a loss for samples of mu and pi_theta = a; log_ref NaN: the choice's pi_old."""
    log_pi = problem.logits.log_softmax(0)
    old, weights = old_policy(Row(choice), log_mu, log_pi)
    problem = replace(problem, log_old=old, log_ref=old if problem.log_ref.isnan().all() else problem.log_ref)
    unweighted = spec_loss(LossSpec.parse(loss, kl_coef=beta))

    def weighted(_, log_prob):
        return unweighted(problem, log_prob) * (1.0 if weights is None else weights)

    return loss_gradient(replace(problem, log_old=log_mu), weighted, normalized=True)


@pytest.mark.parametrize("choice", PI_OLD)
def test_a_baseline_moves_the_kept_mass(choice):
    """E_mu[w b grad log pi] = b grad pi(N), divided by pi(N) under recomputed; 0 for the whole policy."""
    for parameter, value in (("top_p", 0.8), ("top_p", 1.0)):
        logits, log_mu, slope = of_prefix(parameter, value)
        mass = logits.softmax(0)[log_mu > NEVER].sum() if choice == "recomputed" else 1.0
        constant = Problem(logits, log_mu, torch.full_like(logits, math.nan), torch.full_like(logits, 0.5), 0.0)
        got = expected_gradient(choice, "rpg_rf_urkl", constant, log_mu)
        torch.testing.assert_close(got, -0.5 * slope / mass, atol=1e-12, rtol=1e-9)
        assert (got.norm() > 0.01) == (value < 1)


@pytest.mark.parametrize("choice", PI_OLD)
@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_the_kl_to_pi_old_moves_the_kept_mass(divergence, choice):
    """The factor of beta grad pi(N) along which the loss ascends, with reference=old."""
    logits, log_mu, slope = of_prefix("top_p", 0.8)
    mass = logits.softmax(0)[log_mu > NEVER].sum().item()
    of_behavior = {
        "fkl": 1 / mass,
        "rkl": -(math.log(mass) + 1),
        "ufkl": (1 - mass) / mass,
        "urkl": -math.log(mass),
    }
    factor = of_behavior[divergence]
    if choice != "behavior":  # pi_ref is a
        factor = {"fkl": 1.0, "rkl": -1.0}.get(divergence, 0.0) / (mass if choice == "recomputed" else 1)
    nothing = Problem(logits, log_mu, torch.full_like(logits, math.nan), torch.zeros_like(logits), 0.3)
    got = expected_gradient(choice, f"rpg_rf_{divergence}", nothing, log_mu, beta=0.3)
    torch.testing.assert_close(got, -0.3 * factor * slope, atol=1e-12, rtol=1e-9)
    assert choice != "behavior" or (got @ slope < 0) == (divergence != "rkl")  # the loss descends


@pytest.mark.full
def test_the_samplers_are_vllms():
    from vllm.model_executor.layers.utils import apply_penalties
    from vllm.v1.sample.ops.topk_topp_sampler import apply_top_k_top_p_pytorch

    logits, number = POLICIES.float(), len(POLICIES)
    for parameter, value in (("top_p", 0.8), ("top_k", 5)):
        k = torch.full((number,), int(value)) if parameter == "top_k" else None
        p = torch.full((number,), value) if parameter == "top_p" else None
        theirs = apply_top_k_top_p_pytorch(logits.clone(), k, p)
        torch.testing.assert_close(sampler.sampled(parameter, value, logits, COUNTS), theirs)
    longest = int(COUNTS.sum(-1).max())
    text = torch.full((number, longest), sampler.TOKENS)  # padding
    for prefix, counts in enumerate(COUNTS):
        tokens = torch.arange(sampler.TOKENS).repeat_interleave(counts)
        text[prefix, : len(tokens)] = tokens
    for position, (parameter, value) in enumerate(sampler.SAMPLERS[-3:]):
        strength = [torch.full((number,), neutral) for neutral in (1.0, 0.0, 0.0)]
        strength[position] = torch.full((number,), value)
        repetition, presence, frequency = strength
        nothing = torch.full((number, 1), sampler.TOKENS)
        theirs = apply_penalties(logits.clone(), nothing, text, presence, frequency, repetition)
        torch.testing.assert_close(sampler.sampled(parameter, value, logits, COUNTS), theirs)
