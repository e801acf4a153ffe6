"""Clipped losses, token by token, against the tables of docs/mathematics.md, at and around every bound."""

import itertools
import math

import pytest
import torch

from rpg.names import DIVERGENCES
from rpg.objectives import LossSpec, token_loss
from tests.objectives.formulas import LOSSES, WEIGHTS, c_component

# Bounds that a ratio can hit exactly: exponentials of binary fractions, and 1 +- eps rounds to them exactly
# (differences of numbers within a factor of 2 are exact). log_prob - old_log_prob is exact as well.
LOG_LO, LOG_HI, LOG_C = -0.1875, 0.25, 1.5
LO, HI, C = (torch.tensor(value, dtype=torch.float64).exp().item() for value in (LOG_LO, LOG_HI, LOG_C))
CLIP = {"clip_low": 1 - LO, "clip_high": HI - 1, "clip_c": C}
STEP = 2.0**-30
LOG_RATIOS = sorted(
    {-3.0, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0}
    | {bound + offset for bound in (LOG_LO, LOG_HI, LOG_C, 0.0) for offset in (-STEP, 0.0, STEP)}
)
OLD = -8.0
ADVANTAGES = (1.5, -1.5, 0.01, -0.01, 0.0)  # the small ones let the KL component decide the sign of psi
BETAS = (0.0, 0.05, 2.0)
LOG_RHOS = (None, 0.0, 0.75, -0.75)


def evaluate_all(spec, tokens, log_rho):
    """(loss, slope, flags) of every (log_w, advantage) in one float64 call."""
    log_w, advantages = torch.tensor(tokens, dtype=torch.float64).T
    old = torch.full_like(log_w, OLD)
    x = (old + log_w).requires_grad_()
    ref = None if log_rho is None else old + log_rho
    loss, stats = token_loss(spec, log_prob=x, old_log_prob=old, advantages=advantages, ref_log_prob=ref)
    (slope,) = torch.autograd.grad(loss.sum(), x)
    flags = torch.stack([stats.clipped_high, stats.clipped_low, stats.clipped_c], dim=1)
    return zip(loss.tolist(), slope.tolist(), flags.tolist(), strict=True)


TOKENS = list(itertools.product(LOG_RATIOS, ADVANTAGES))


def evaluated(name, **rules):
    """Yield beta, log_rho, log_w, w, advantage and evaluate_all's result of every token, beta and log_rho."""
    for beta, log_rho in itertools.product(BETAS, LOG_RHOS):
        spec = LossSpec.parse(name, kl_coef=beta, **rules, **CLIP)
        for (log_w, advantage), result in zip(TOKENS, evaluate_all(spec, TOKENS, log_rho), strict=True):
            yield beta, log_rho, log_w, torch.tensor(log_w, dtype=torch.float64).exp().item(), advantage, result


@pytest.mark.parametrize("divergence", DIVERGENCES)
@pytest.mark.parametrize("branch", ["psi", "advantage"])
def test_rpg_style_clip_is_algorithm_2(divergence, branch):
    tokens = evaluated(f"rpg_rf_{divergence}_clip_ppo", clip_branch=branch)
    for beta, log_rho, log_w, w, advantage, (loss, slope, flags) in tokens:
        clamped = min(max(w, LO), HI)
        weight = w * advantage + beta * c_component(divergence, clamped, log_rho)
        psi = weight / w * -(OLD + log_w)
        upper = psi >= 0 if branch == "psi" else advantage >= 0
        if upper:
            passes, held = w < HI, min(w, HI)
        else:
            passes, held = LO < w < C, min(max(w, LO), C)
        case = f"beta={beta} log_rho={log_rho} A={advantage} log_w={log_w}"
        constant = (advantage * held + weight - w * advantage) * -(OLD + log_w)  # (A b + C) l
        # two evaluation orders of a handful of float64 operations: 1e-13 relative is rounding
        assert slope == pytest.approx(-weight if passes else 0.0, rel=1e-13, abs=1e-15), case
        assert loss == pytest.approx(psi * w if passes else constant, rel=1e-12, abs=1e-13), case
        if weight != 0:
            assert flags == [upper and not passes, not upper and w <= LO, not upper and w >= C], case


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_equation_4_1_bounds_the_ratio_of_the_whole_weight(divergence):
    """-SG(C(w, A')) log pi with A' = A + C/w: no token without a gradient, and Table 2's inside the bounds."""
    tokens = evaluated(f"rpg_rf_{divergence}_clip_dual")
    for beta, log_rho, log_w, w, advantage, (loss, slope, flags) in tokens:
        regularized = advantage + beta * c_component(divergence, w, log_rho) / w
        if regularized >= 0:
            weight = min(w * regularized, min(max(w, LO), HI) * regularized)
        else:
            weight = max(min(w * regularized, min(max(w, LO), HI) * regularized), C * regularized)
        assert slope == pytest.approx(-weight, rel=1e-12, abs=1e-14)
        assert loss == pytest.approx(-weight * (OLD + log_w), rel=1e-12, abs=1e-13)
        if regularized != 0:
            sign = regularized > 0
            assert flags == [sign and w > HI, not sign and w < LO, not sign and w > C]


@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_hard_clip_clamps_the_ratio_in_the_whole_weight(divergence):
    """Remark F.2."""
    tokens = evaluated(f"rpg_rf_{divergence}_clip_hard")
    for beta, log_rho, log_w, w, advantage, (loss, slope, flags) in tokens:
        clamped = min(max(w, LO), HI)
        weight = clamped * advantage + beta * c_component(divergence, clamped, log_rho)
        assert slope == pytest.approx(-weight, rel=1e-13, abs=1e-15)
        assert loss == pytest.approx(-weight * (OLD + log_w), rel=1e-13, abs=1e-14)
        assert flags == [w > HI, w < LO, False]


def written_out(spec, x, old, advantage, ref):
    """Return the differentiable losses as written in the paper, for autograd (Appendix G)."""
    log_w = x - old
    w = log_w.clamp(-20, 20).exp()
    rho = (ref - old).clamp(-20, 20).exp()
    lo, hi, c, beta = 1 - spec.clip_low, 1 + spec.clip_high, spec.clip_c, spec.kl_coef

    def dual(a_hat):
        clipped = torch.max(-w * a_hat, -w.clamp(lo, hi) * a_hat)
        return torch.where(a_hat >= 0, clipped, torch.min(clipped, -c * a_hat))

    def kl(w, log_w, log_u):
        return LOSSES[spec.divergence](x, w, log_w, log_u, rho)

    if spec.clip_scope == "none":
        return -w * advantage + beta * kl(w, log_w, x - ref)
    if spec.clip_scope == "reward":
        return dual(advantage) + beta * kl(w, log_w, x - ref)
    if spec.clip_scope == "hard":
        wb, log_wb = w.clamp(lo, hi), log_w.clamp(math.log(lo), math.log(hi))
        return -wb * advantage + beta * kl(wb, log_wb, log_wb - (ref - old))
    with torch.no_grad():  # the regularised advantage A + C / w
        weight = WEIGHTS[spec.divergence](w, rho, x - ref)
        a_hat = advantage + beta * weight / w
    return dual(a_hat)


@pytest.mark.parametrize("scope", ["none", "reward", "regularized", "hard"])
@pytest.mark.parametrize("divergence", DIVERGENCES)
def test_differentiable_losses_against_autograd_of_the_written_formula(divergence, scope):
    """Value and gradient, also with the clamp at +-20 active: w is then constant, but not in Algorithm 1's loss."""
    generator = torch.Generator().manual_seed(0)

    def normal(scale):
        return torch.randn(4000, generator=generator, dtype=torch.float64) * scale

    old = -3 - normal(1.0).abs()
    x = (old + torch.cat([normal(0.4)[:2000], normal(3.0)[:1500], normal(30.0)[:500]])).requires_grad_()
    ref, advantage = old + normal(0.5), normal(1.0)
    spec = LossSpec.parse(f"rpg_{divergence}", kl_coef=0.3, clip_scope=scope, **CLIP)
    loss, _ = token_loss(spec, log_prob=x, old_log_prob=old, advantages=advantage, ref_log_prob=ref)
    expected = written_out(spec, x, old, advantage, ref)
    torch.testing.assert_close(loss, expected, rtol=1e-12, atol=1e-12)
    (slope,) = torch.autograd.grad(loss.sum(), x)
    (expected_slope,) = torch.autograd.grad(expected.sum(), x)
    if scope == "regularized":  # -(w A + C) at every w inside the bounds; its value -w A' has w as a factor
        far = (x - old < -20) & (expected < 0)
        assert far.sum() > 10
        expected_slope = expected.where(far, expected_slope)
    torch.testing.assert_close(slope, expected_slope, rtol=1e-12, atol=1e-12)
