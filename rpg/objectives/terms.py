"""Value and slope of every loss, in closed form: plain arithmetic on tensors of one shape, no autograd.

The slope is the derivative of the token's loss by x = log pi_theta, the number that multiplies
grad log pi_theta in the gradient.
"""

from typing import NamedTuple

import torch
from torch import Tensor

from rpg.objectives.clip import clamp_ratios, dual_clip, indicator, outside, rpg_style_clip
from rpg.objectives.divergences import DIVERGENCES, Ratios
from rpg.objectives.spec import LossSpec

MAX_LOG_RATIO = 20.0  # exp(20) = 4.9e8: far beyond any clip, far from overflow; verl's value

Flags = tuple[Tensor, Tensor, Tensor]  # 1.0 or 0.0: held at 1 + eps_high, at 1 - eps_low, at c


class TokenStats(NamedTuple):
    """What one call saw, per token; no tensor carries a gradient.

    Attributes:
        ratio: w.
        log_ratio: log w, not clamped at +-20.
        kl: estimate of the divergence: its mean over x ~ pi_old is D.
        clipped_high, clipped_low, clipped_c: held at 1 + eps_high, at 1 - eps_low, at c. Bool in what
            token_loss returns, 1.0 or 0.0 in what evaluate returns.
    """

    ratio: Tensor
    log_ratio: Tensor
    kl: Tensor
    clipped_high: Tensor
    clipped_low: Tensor
    clipped_c: Tensor


class Included(NamedTuple):
    """Which tokens count, in two forms: 1.0 or 0.0, and an integer with all bits set or none.

    An integer "and" turns whatever stands at a token that does not count, NaN included, into 0.0, at a
    fraction of the cost of masked_fill.
    """

    weight: Tensor
    bits: Tensor

    @classmethod
    def of(cls, mask: Tensor, dtype: torch.dtype) -> "Included":
        """From a mask that is nonzero where a token counts; dtype is float32 or float64."""
        weight = mask.to(torch.bool).to(dtype)
        return cls(weight, weight.to(_BITS[dtype]).neg_())

    def clear_others_(self, tensor: Tensor) -> Tensor:
        """Set `tensor` to 0.0, in place, where tokens do not count."""
        tensor.view(self.bits.dtype).bitwise_and_(self.bits)
        return tensor


_BITS = {torch.float32: torch.int32, torch.float64: torch.int64}


def evaluate(
    spec: LossSpec, x: Tensor, old: Tensor, advantages: Tensor, ref: Tensor | None, included: Included | None
) -> tuple[Tensor, Tensor, TokenStats]:
    """Loss, slope and statistics; tokens that do not count get loss, slope and KL 0, and ratio 1, but
    flags of no meaning.

    Args:
        x, old, advantages, ref: log pi_theta, log pi_old, A, log pi_ref (None: pi_ref = pi_old), of one
            shape and one type, float32 or float64.
        included: which tokens count; None means all. Elsewhere the inputs mean nothing and may be NaN.
    """
    r = _ratios(x, old, ref, included)
    divergence = DIVERGENCES[spec.divergence]
    terms = _differentiable if spec.estimator == "differentiable" else _reinforce
    loss, slope, flags = terms(spec, r, advantages)
    kl = divergence.estimate(r)
    if not divergence.normalized and spec.z_old != 1.0:
        loss, slope, kl = loss * spec.z_old, slope * spec.z_old, kl * spec.z_old
    if included is not None:
        loss, slope = included.clear_others_(loss), included.clear_others_(slope)
    return loss, slope, TokenStats(r.w, r.log_w, kl, *flags)


def _ratios(x: Tensor, old: Tensor, ref: Tensor | None, included: Included | None) -> Ratios:
    """w, rho and u from log-probs; all of them 1 where tokens do not count."""
    log_w = _difference(x, old, included)
    w = log_w.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp_()
    if ref is None:
        return Ratios(x, w, log_w, 1.0, log_w)
    rho = _difference(ref, old, included).clamp_(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp_()
    return Ratios(x, w, log_w, rho, _difference(x, ref, included))


def _difference(a: Tensor, b: Tensor, included: Included | None) -> Tensor:
    return a - b if included is None else included.clear_others_(a - b)


def _differentiable(spec: LossSpec, r: Ratios, advantages: Tensor) -> tuple[Tensor, Tensor, Flags]:
    """-w A + beta * KL loss, clipped as clip_scope says (Tables 1 and 2, Algorithm 1); its true derivative."""
    divergence, beta = DIVERGENCES[spec.divergence], spec.kl_coef
    dw = indicator(torch.le, r.log_w.abs(), MAX_LOG_RATIO).mul_(r.w)  # w is constant where its log-ratio is clamped
    if spec.rule == "regularized":  # Algorithm 1: one clip around reward and KL together
        regularized = advantages + beta * divergence.weight(r) / r.w
        clip = dual_clip(regularized, r.w, spec)
        return -clip.w * regularized, -(dw * clip.keep) * regularized, (clip.high, clip.low, clip.c)
    if spec.rule == "reward":  # as the release ran: clipped reward term, exact KL term
        clip = dual_clip(advantages, r.w, spec)
        loss = beta * divergence.loss(r) - clip.w * advantages
        slope = beta * divergence.slope(r, dw, 1.0) - dw * clip.keep * advantages
        return loss, slope, (clip.high, clip.low, clip.c)
    flags = _hard_flags(spec, r.w)
    if spec.rule == "hard":  # the clamped ratio everywhere; it is constant outside its bounds
        r, dlog_w = clamp_ratios(r, spec), 1.0 - flags[0] - flags[1]
        dw = dw * dlog_w
    elif spec.rule == "none":
        dlog_w = 1.0
    else:
        raise NotImplementedError(f"no loss for the clip {spec.rule!r} of a differentiable loss")
    loss = beta * divergence.loss(r) - r.w * advantages
    return loss, beta * divergence.slope(r, dw, dlog_w) - dw * advantages, flags


def _reinforce(spec: LossSpec, r: Ratios, advantages: Tensor) -> tuple[Tensor, Tensor, Flags]:
    """-SG(w A + C) log pi_theta, clipped as the name says (Table 4, Algorithm 2).

    RPG-Style Clip: the KL component C sees the clamped ratio, the reward part the ratio itself.
    """
    divergence, beta = DIVERGENCES[spec.divergence], spec.kl_coef
    clip_all, clip_none = spec.rule == "hard", spec.rule == "none"
    clamped = r if clip_none else clamp_ratios(r, spec)
    reward_ratio = clamped.w if clip_all else r.w
    minus_weight = -torch.add(reward_ratio * advantages, divergence.weight(clamped), alpha=beta)
    if clip_all or clip_none:
        return minus_weight * r.x, minus_weight, _hard_flags(spec, r.w)
    # psi = A' l with l = -log pi >= 0 and A' = weight / w with w > 0: psi has the sign of the weight. Taking
    # the sign there keeps the branch right where rounding makes log pi zero or slightly positive.
    if spec.rule == "psi":
        upper, lower = indicator(torch.lt, minus_weight, 0.0), indicator(torch.gt, minus_weight, 0.0)
    elif spec.rule == "advantage":
        upper, lower = indicator(torch.ge, advantages, 0.0), indicator(torch.lt, advantages, 0.0)
    else:
        raise NotImplementedError(f"no loss for the clip {spec.rule!r} of a REINFORCE loss")
    clip = rpg_style_clip(upper, lower, r.w, spec)
    loss = (minus_weight * r.x).mul_(clip.w / r.w)
    return loss, minus_weight * clip.keep, (clip.high, clip.low, clip.c)


def _hard_flags(spec: LossSpec, w: Tensor) -> Flags:
    nothing = torch.zeros_like(w)
    high, low = outside(w, spec) if spec.rule == "hard" else (nothing, nothing)
    return high, low, nothing
