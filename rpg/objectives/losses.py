"""The losses of the paper (Tables 1, 2, 4, Appendix G, Algorithm 2): one row per divergence, one function per clip.

This file holds the formulas; tokens.py adds masks, precision and statistics. All tensors have the same shape, for
example (batch, tokens). `detach` is the paper's SG. Only log_prob receives a gradient.
"""

import math
from collections.abc import Callable
from typing import NamedTuple, Self

import torch
from torch import Tensor

from rpg.names import DIVERGENCES as NAMES
from rpg.objectives.spec import LossSpec

MAX_LOG_RATIO = 20.0  # exp(20) = 4.9e8: far beyond any clip, far from overflow; verl's value


class Ratios(NamedTuple):
    """The quantities that the formulas use.

    Attributes:
        x: log pi_theta.
        log_w: log pi_theta - log pi_old.
        log_rho: log pi_ref - log pi_old; 0 if the reference is pi_old.
        w, rho: pi_theta / pi_old and pi_ref / pi_old, from log-ratios clamped at +-20.
        log_u: log pi_theta - log pi_ref.
        later: sum over the response's later tokens of w log u, less its baseline, detached; 0 with kl_scope "token".
        prefix: product of rho over the response's earlier tokens, within exp(+-rho_bound); 1 with kl_scope "token".
    """

    x: Tensor
    log_w: Tensor
    log_rho: Tensor | float
    w: Tensor
    rho: Tensor | float
    log_u: Tensor
    later: Tensor | float = 0.0
    prefix: Tensor | float = 1.0

    def detach(self) -> Self:
        """All quantities without gradients, the paper's SG."""
        return Ratios(*(value if isinstance(value, float) else value.detach() for value in self))  # type: ignore


class Divergence(NamedTuple):
    """One divergence D, as functions of the ratios, without the factor beta.

    Attributes:
        loss: the KL part of the differentiable loss (Tables 1 and 4).
        weight: C / beta, the KL part of the weight of grad log pi_theta in grad J (Table 2, Appendix F).
        estimate: its mean over x ~ pi_old is D of the next token (D / Z_old for an unnormalised D).
        normalized: whether D is defined between normalised policies; Z_old is then unused.
    """

    loss: Callable[[Ratios], Tensor]
    weight: Callable[[Ratios], Tensor | float]
    estimate: Callable[[Ratios], Tensor]
    normalized: bool


DIVERGENCES = {
    "fkl": Divergence(  # KL(pi_ref, pi_theta)
        loss=lambda r: -r.prefix * r.rho * r.x,
        weight=lambda r: r.prefix * r.rho,
        estimate=lambda r: -r.rho * r.log_u,
        normalized=True,
    ),
    "rkl": Divergence(  # KL(pi_theta, pi_ref)
        loss=lambda r: r.w * (r.log_u + r.later),
        weight=lambda r: -r.w * (r.log_u + (r.later + 1)),
        estimate=lambda r: r.w * r.log_u,
        normalized=True,
    ),
    "ufkl": Divergence(  # FKL + mass(pi_theta) - mass(pi_ref)
        loss=lambda r: r.prefix * (r.w - r.rho * (r.log_w + 1)),
        weight=lambda r: r.prefix * (r.rho - r.w),
        estimate=lambda r: r.w - r.rho * (r.log_u + 1),
        normalized=False,
    ),
    "urkl": Divergence(  # RKL + mass(pi_ref) - mass(pi_theta)
        loss=lambda r: r.w * (r.log_u + (r.later - 1)),
        weight=lambda r: -r.w * (r.log_u + r.later),
        estimate=lambda r: r.w * (r.log_u - 1) + r.rho,
        normalized=False,
    ),
}
assert tuple(DIVERGENCES) == NAMES


def ratios(log_prob: Tensor, old_log_prob: Tensor, ref_log_prob: Tensor | None) -> Ratios:
    """Compute the ratios of finite log-probs of one shape; without ref_log_prob pi_ref is pi_old."""
    log_w = log_prob - old_log_prob
    w = log_w.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp_()
    if ref_log_prob is None:
        return Ratios(log_prob, log_w, 0.0, w, 1.0, log_w)
    log_rho = ref_log_prob - old_log_prob
    rho = log_rho.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp_()
    return Ratios(log_prob, log_w, log_rho, w, rho, log_w - log_rho)


def sum_earlier(values: Tensor) -> Tensor:
    """Sum over s < t along the last dimension; without a subtraction, in which an extreme value rounds others away."""
    return torch.cat([torch.zeros_like(values[..., :1]), values[..., :-1]], -1).cumsum(-1)


def sum_later(values: Tensor) -> Tensor:
    """Sum over s > t along the last dimension, from its end."""
    return sum_earlier(values.flip(-1)).flip(-1)


def add_later(r: Ratios) -> Ratios:
    """Add to `later` the sum over s > t of w_s log u_s along the last dimension, detached."""
    later = sum_later(r.w.detach() * r.log_u.detach())
    return r._replace(later=later if isinstance(r.later, float) else later.add_(r.later))


class Clipped(NamedTuple):
    """The tokens on which a clip acts, bool: at 1 + eps_high, at 1 - eps_low, at c.

    As in verl, a token whose signal is 0 never counts.
    """

    high: Tensor
    low: Tensor
    c: Tensor


def clamp_ratio(r: Ratios, spec: LossSpec) -> Ratios:
    """Replace w by wb = clip(w, lo, hi). rho does not depend on pi_theta and is not clipped."""
    lo, hi = spec.bounds
    log_w = r.log_w.clamp(math.log(lo) if lo > 0 else -math.inf, math.log(hi))
    return r._replace(w=r.w.clamp(lo, hi), log_w=log_w, log_u=log_w - r.log_rho)


def clamped_tokens(w: Tensor, spec: LossSpec) -> Clipped:
    """The tokens whose w clamp_ratio changes, where the rule is "hard"; none for "none"."""
    lo, hi = spec.bounds
    none = torch.zeros_like(w, dtype=torch.bool)
    return Clipped(w > hi, w < lo, none) if spec.rule == "hard" else Clipped(none, none, none)


def dual_clip(w: Tensor, signal: Tensor, spec: LossSpec) -> tuple[Tensor, Clipped]:
    """Dual clip of -w s (Appendix G.1); the signal s is the advantage or the regularised advantage.

    s >= 0: max(-w s, -clip(w, lo, hi) s)                   = -min(w, hi) s
    s <  0: min(max(-w s, -clip(w, lo, hi) s), -c s)        = -clip(w, lo, c) s
    """
    lo, hi = spec.bounds
    loss = -(w.clamp(max=hi) * signal.clamp(min=0) + w.clamp(lo, spec.clip_c) * signal.clamp(max=0))
    positive, negative = signal > 0, signal < 0
    return loss, Clipped(positive & (w > hi), negative & (w < lo), negative & (w > spec.clip_c))


def rpg_style_clip(
    weight: Tensor, upper: Tensor, r: Ratios, advantages: Tensor, spec: LossSpec
) -> tuple[Tensor, Clipped]:
    """RPG-Style Clip of Algorithm 2: psi SG(w) inside the bounds, a constant outside.

    weight is w A + C, upper the branch psi >= 0 (or A >= 0), l = -log pi_theta, psi = A' l with A' = weight / w.

    | branch | condition  | loss           | gradient                      |
    | upper  | w <  hi    | psi SG(w)      | -weight grad log pi_theta     |
    | upper  | w >= hi    | (A hi + C) l   | 0                             |
    | lower  | w <= lo    | (A lo + C) l   | 0                             |
    | lower  | lo < w < c | psi SG(w)      | -weight grad log pi_theta     |
    | lower  | w >= c     | (A c + C) l    | 0                             |

    The constants are those of Algorithm 2, lines 21 to 34.
    """
    (lo, hi), c = spec.bounds, spec.clip_c
    w, x = r.w.detach(), r.x.detach()
    at_high, at_low, at_c = upper & (w >= hi), ~upper & (w <= lo), ~upper & (w >= c)
    inside = ~(at_high | at_low | at_c)
    bounded = w.clamp(max=hi).where(upper, w.clamp(lo, c))
    held = weight + (bounded - w) * advantages  # A b + C; inside the bounds b = w
    nonzero = weight != 0
    return -held * x - weight * inside * (r.x - x), Clipped(nonzero & at_high, nonzero & at_low, nonzero & at_c)


def differentiable_loss(spec: LossSpec, r: Ratios, advantages: Tensor) -> tuple[Tensor, Clipped]:
    """-w A + beta * KL loss (Tables 1 and 4), clipped by spec.rule."""
    divergence, beta, unclamped = DIVERGENCES[spec.divergence], spec.kl_coef, r.w
    if spec.rule == "hard":  # the clamped ratio everywhere
        r = clamp_ratio(r, spec)
    if spec.has_later:
        r = add_later(r)
    match spec.rule:
        case "none" | "hard":  # without a clip: exact
            return -r.w * advantages + beta * divergence.loss(r), clamped_tokens(unclamped, spec)
        case "reward":  # as the release ran, and G.2 for FKL and UFKL: clipped reward term, exact KL term
            reward_loss, clipped = dual_clip(r.w, advantages, spec)
            return reward_loss + beta * divergence.loss(r), clipped
        case "regularized":  # Appendix G.2 for RKL and URKL: one clip around reward and KL
            stopped = r.detach()
            regularized = advantages + beta * divergence.weight(stopped) / stopped.w
            w = stopped.w * (1 + (r.x - stopped.x))  # has the gradient w grad log pi_theta also where log w is clamped
            return dual_clip(w, regularized, spec)
        case rule:
            raise NotImplementedError(f"no differentiable loss has the clip {rule!r}")


def reinforce_weight(spec: LossSpec, r: Ratios, advantages: Tensor) -> Tensor:
    """w A + C, the weight of grad log pi_theta in grad J (Table 2, Appendix F).

    Algorithm 2 uses the clamped ratio in C only (docs/mathematics.md, "Clipping"), Remark F.2 in both parts, Eq. 4.1 in
    neither.
    """
    clamped = r if spec.rule in ("none", "dual") else clamp_ratio(r, spec)
    if spec.has_later:
        clamped = add_later(clamped)
    reward_ratio = clamped.w if spec.rule == "hard" else r.w
    return reward_ratio * advantages + spec.kl_coef * DIVERGENCES[spec.divergence].weight(clamped)


def reinforce_loss(spec: LossSpec, r: Ratios, advantages: Tensor) -> tuple[Tensor, Clipped]:
    """-SG(w A + C) log pi_theta (Table 2), clipped by spec.rule."""
    w = r.w.detach()
    weight = reinforce_weight(spec, r.detach(), advantages)
    match spec.rule:
        case "none" | "hard":
            return -weight * r.x, clamped_tokens(w, spec)
        case "dual":  # Eq. 4.1: A' = weight / w times the bounded ratio; no token loses its gradient
            bounded, clipped = dual_clip(w, weight / w, spec)
            return bounded * r.x, clipped
        case "psi":  # psi = weight l / w has the sign of the weight: w > 0 and l >= 0
            return rpg_style_clip(weight, weight >= 0, r, advantages, spec)
        case "advantage":
            return rpg_style_clip(weight, advantages >= 0, r, advantages, spec)
        case rule:
            raise NotImplementedError(f"no REINFORCE loss has the clip {rule!r}")
