"""Clipping of the importance ratio: dual clip (the paper's Algorithms 1 and 2) and the hard clip.

Bounds: lo = 1 - eps_low, hi = 1 + eps_high, c > 1. All tensors have one shape, e.g. (batch, tokens).
"""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from rpg.objectives.divergences import Ratios
from rpg.objectives.spec import LossSpec


class Clipped(NamedTuple):
    """Result of a clip.

    Attributes:
        w: the ratio that the loss value is computed with.
        keep: True where the gradient passes, False where the loss is constant.
        high, low, c: which tokens are held at 1 + eps_high, at 1 - eps_low, at c.
    """

    w: Tensor
    keep: Tensor
    high: Tensor
    low: Tensor
    c: Tensor


def dual_clip(signal: Tensor, w: Tensor, spec: LossSpec) -> Clipped:
    """Dual clip of a differentiable loss -w * signal (the paper's Algorithm 1).

    signal >= 0: max(-w s, -clip(w, lo, hi) s) = -min(w, hi) s
    signal <  0: min(max(-w s, -clip(w, lo, hi) s), -c s) = -clip(w, lo, c) s

    At a bound itself both sides of the kink have the same value; the gradient is kept there, as autograd
    keeps it for torch.clamp. `signal` is the advantage (clip_scope "reward") or the regularised advantage
    A + C / w ("regularized"). Tokens with signal 0 are never counted as clipped, as in verl.
    """
    lo, hi = 1 - spec.clip_low, 1 + spec.clip_high
    positive, negative = signal > 0, signal < 0
    bounded = torch.where(positive, w.clamp(max=hi), w.clamp(min=lo, max=max(lo, spec.clip_c)))
    high = positive & (w > hi)
    low = negative & (w < lo)
    above_c = negative & (w > spec.clip_c)
    return Clipped(bounded, ~(high | low | above_c), high, low, above_c)


def rpg_style_clip(branch: Tensor, weight: Tensor, w: Tensor, spec: LossSpec) -> Clipped:
    """RPG-Style Clip of a REINFORCE loss (the paper's Algorithm 2).

    | branch      | condition      | loss           | gradient               |
    | branch >= 0 | w <  hi        | psi * SG(w)    | -(w A + C) grad log pi |
    | branch >= 0 | w >= hi        | constant       | 0                      |
    | branch <  0 | w <= lo        | constant       | 0                      |
    | branch <  0 | lo < w < c     | psi * SG(w)    | -(w A + C) grad log pi |
    | branch <  0 | w >= c         | constant       | 0                      |

    The constants are psi times the bound, so that the loss value has no jump. `branch` is a number with the
    sign of psi, or the advantage with clip_branch "advantage"; `weight` is w A + C. A token
    of weight 0 has no gradient to lose and is not counted as clipped.
    """
    lo, hi = 1 - spec.clip_low, 1 + spec.clip_high
    upper = branch >= 0
    bounded = torch.where(upper, w.clamp(max=hi), w.clamp(min=lo, max=spec.clip_c))
    moves = weight != 0
    high = upper & (w >= hi) & moves
    lower = ~upper & moves
    low = lower & (w <= lo)
    above_c = lower & (w >= spec.clip_c)
    return Clipped(bounded, ~(high | low | above_c), high, low, above_c)


def clamp_ratios(r: Ratios, spec: LossSpec) -> Ratios:
    """The ratios with w replaced by wb = clip(w, lo, hi) and log w by log wb; rho is left alone.

    Used whole by the hard clip, and for the KL component C by RPG-Style Clip (paper.md section 3).
    """
    lo, hi = 1 - spec.clip_low, 1 + spec.clip_high
    log_lo = math.log(lo) if lo > 0 else -math.inf
    inside = (r.w >= lo) & (r.w <= hi)
    log_w = r.log_w.clamp(log_lo, math.log(hi))
    return r._replace(
        w=r.w.clamp(lo, hi),
        dw=r.dw * inside,
        log_w=log_w,
        dlog_w=inside.to(r.w.dtype),
        log_u=r.log_u + (log_w - r.log_w),
    )


def hard_clip_flags(signal: Tensor, w: Tensor, spec: LossSpec) -> tuple[Tensor, Tensor, Tensor]:
    """Which tokens the hard clip holds at 1 + eps_high, at 1 - eps_low, at c (never), whatever the sign."""
    lo, hi = 1 - spec.clip_low, 1 + spec.clip_high
    return w > hi, w < lo, torch.zeros_like(w, dtype=torch.bool)
