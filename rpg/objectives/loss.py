"""token_loss: the one function that turns log-probs and advantages into a per-token loss.

The derivative of every loss by log pi_theta has a closed form. Value and derivative are computed in one
go, and the derivative is the only tensor kept for the backward pass: no graph, no second evaluation.
"""

from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from rpg.objectives.clip import clamp_ratios, dual_clip, hard_clip_flags, rpg_style_clip
from rpg.objectives.divergences import DIVERGENCES, Ratios
from rpg.objectives.spec import LossSpec

MAX_LOG_RATIO = 20.0  # exp(20) = 4.9e8: far beyond any clip, far from overflow; verl's value


class TokenStats(NamedTuple):
    """What one call saw, per token; no tensor carries a gradient.

    Attributes:
        ratio: w.
        log_ratio: log w, clamped at +-20.
        kl: estimate of the divergence (mean over x ~ pi_old, times Z_old for UFKL and URKL).
        clipped_high, clipped_low, clipped_c: bool, held at 1 + eps_high, at 1 - eps_low, at c.
    """

    ratio: Tensor
    log_ratio: Tensor
    kl: Tensor
    clipped_high: Tensor
    clipped_low: Tensor
    clipped_c: Tensor


def token_loss(
    spec: LossSpec,
    *,
    log_prob: Tensor,
    old_log_prob: Tensor,
    advantages: Tensor,
    ref_log_prob: Tensor | None = None,
    mask: Tensor | None = None,
) -> tuple[Tensor, TokenStats]:
    """Per-token loss whose gradient, in expectation over x ~ pi_old, is -grad J, J = E[A] - beta D.

    Differentiable (rpg_<d>):  -w A + beta * KL loss           (paper's Tables 1 and 2, Algorithm 1)
    REINFORCE (rpg_rf_<d>):    -SG(w A + C) log pi_theta       (paper's Table 4, Algorithm 2)
    with C the KL part of the weight; each divergence's row is in divergences.py, each clip in clip.py.
    For clip_scope "none" and for `rpg_rf_<d>` the expectation is exact; see docs/mathematics.md.

    Args:
        spec: which loss.
        log_prob: log pi_theta, the only input that a gradient flows to.
        old_log_prob: log pi_old.
        advantages: A.
        ref_log_prob: log pi_ref; None means pi_ref = pi_old.
        mask: optional, nonzero where a token counts. Elsewhere inputs may be anything, NaN included, and
            loss and gradient are exactly 0.
        All tensors have one shape, e.g. (batch, tokens).

    Returns:
        loss of that shape, float64 if any log-prob or advantage is float64, else float32; and TokenStats.

    Raises:
        ValueError: shapes differ.
    """
    tensors = {
        "old_log_prob": old_log_prob,
        "advantages": advantages,
        "ref_log_prob": ref_log_prob,
        "mask": mask,
    }
    for name, tensor in tensors.items():
        if tensor is not None and tensor.shape != log_prob.shape:
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)}, log_prob has {tuple(log_prob.shape)}; "
                "all tensors must have one shape"
            )
    loss, *stats = _TokenLoss.apply(spec, log_prob, old_log_prob, advantages, ref_log_prob, mask)
    return loss, TokenStats(*stats)


class _TokenLoss(torch.autograd.Function):
    """Forward: value and slope. Backward: incoming gradient times slope."""

    @staticmethod
    def forward(ctx: Any, spec, log_prob, old_log_prob, advantages, ref_log_prob, mask):
        dtype = _compute_dtype(log_prob, old_log_prob, advantages, ref_log_prob)
        ref = None if ref_log_prob is None else ref_log_prob.to(dtype)
        excluded = None if mask is None else mask == 0
        loss, slope, stats = _evaluate(
            spec, log_prob.to(dtype), old_log_prob.to(dtype), advantages.to(dtype), ref, excluded
        )
        ctx.save_for_backward(slope)
        ctx.input_dtype = log_prob.dtype
        ctx.mark_non_differentiable(*stats)
        return loss, *stats

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_loss: Tensor, *_):
        (slope,) = ctx.saved_tensors
        gradient = grad_loss * slope
        if ctx.input_dtype == torch.float16:
            # float16 ends at 65504: saturate rather than hand an infinity to the model
            limit = torch.finfo(torch.float16).max
            gradient = gradient.clamp(-limit, limit)
        return None, gradient.to(ctx.input_dtype), None, None, None, None


def _compute_dtype(*tensors: Tensor | None) -> torch.dtype:
    """float64 if any input is, else float32: half precision is only a storage format here."""
    return (
        torch.float64 if any(t is not None and t.dtype == torch.float64 for t in tensors) else torch.float32
    )


def _evaluate(
    spec: LossSpec, x: Tensor, old: Tensor, advantages: Tensor, ref: Tensor | None, excluded: Tensor | None
) -> tuple[Tensor, Tensor, TokenStats]:
    """Loss, its derivative by x = log pi_theta, and the statistics; plain arithmetic, no autograd."""
    if excluded is not None:
        x, old, advantages = (t.masked_fill(excluded, 0.0) for t in (x, old, advantages))
        ref = None if ref is None else ref.masked_fill(excluded, 0.0)
    r, log_ratio = _ratios(x, old, ref)
    divergence = DIVERGENCES[spec.divergence]
    terms = _differentiable if spec.estimator == "differentiable" else _reinforce
    loss, slope, flags = terms(spec, r, advantages)
    kl = divergence.estimate(r)
    if not divergence.normalized and spec.z_old != 1.0:
        loss, slope, kl = loss * spec.z_old, slope * spec.z_old, kl * spec.z_old
    if excluded is not None:
        loss, slope, kl = (t.masked_fill(excluded, 0.0) for t in (loss, slope, kl))
        flags = tuple(flag & ~excluded for flag in flags)
    return loss, slope, TokenStats(r.w, log_ratio, kl, *flags)


def _ratios(x: Tensor, old: Tensor, ref: Tensor | None) -> tuple[Ratios, Tensor]:
    """w, rho and u from log-probs, and the clamped log w."""
    log_w = x - old
    log_ratio = log_w.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    w = log_ratio.exp()
    dw = w * (log_ratio == log_w)
    if ref is None:
        return Ratios(x, w, dw, log_w, 1.0, 1.0, log_w), log_ratio
    rho = (ref - old).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp()
    return Ratios(x, w, dw, log_w, 1.0, rho, x - ref), log_ratio


def _differentiable(spec: LossSpec, r: Ratios, advantages: Tensor):
    """-w A + beta KL loss, clipped as clip_scope says; slope is its true derivative."""
    divergence, beta = DIVERGENCES[spec.divergence], spec.kl_coef
    if spec.rule == "regularized":  # Algorithm 1: one clip around reward and KL together
        regularized = advantages + beta * divergence.weight(r) / r.w
        clip = dual_clip(regularized, r.w, spec)
        return -clip.w * regularized, -(r.dw * clip.keep) * regularized, (clip.high, clip.low, clip.c)
    if spec.rule == "reward":  # the release: clipped reward term, exact KL term
        clip = dual_clip(advantages, r.w, spec)
        reward, reward_slope = clip.w * advantages, r.dw * clip.keep * advantages
        flags = (clip.high, clip.low, clip.c)
    else:
        flags = hard_clip_flags(advantages, r.w, spec) if spec.rule == "hard" else _no_flags(r.w)
        r = clamp_ratios(r, spec) if spec.rule == "hard" else r
        reward, reward_slope = r.w * advantages, r.dw * advantages
    return beta * divergence.loss(r) - reward, beta * divergence.slope(r) - reward_slope, flags


def _reinforce(spec: LossSpec, r: Ratios, advantages: Tensor):
    """-SG(w A + C) log pi_theta, clipped as the name says; slope is minus the weight that passes."""
    divergence, beta = DIVERGENCES[spec.divergence], spec.kl_coef
    if spec.rule in ("none", "hard"):
        flags = hard_clip_flags(advantages, r.w, spec) if spec.rule == "hard" else _no_flags(r.w)
        clamped = clamp_ratios(r, spec) if spec.rule == "hard" else r
        weight = clamped.w * advantages + beta * divergence.weight(clamped)
        return -weight * r.x, -weight, flags
    # Algorithm 2: the KL component sees the clamped ratio, the reward part the ratio itself
    weight = r.w * advantages + beta * divergence.weight(clamp_ratios(r, spec))
    # psi = A' l with l = -log pi >= 0 and A' = weight / w with w > 0: psi has the sign of the weight. Taking
    # the sign there keeps the branch right where rounding makes log pi zero or slightly positive.
    clip = rpg_style_clip(weight if spec.rule == "psi" else advantages, weight, r.w, spec)
    return -weight * r.x * (clip.w / r.w), -(weight * clip.keep), (clip.high, clip.low, clip.c)


def _no_flags(like: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    nothing = torch.zeros_like(like, dtype=torch.bool)
    return nothing, nothing, nothing
