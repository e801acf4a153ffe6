"""Clipping of the importance ratio: dual clip (the paper's Algorithms 1 and 2) and the hard clip.

Bounds: lo = 1 - eps_low, hi = 1 + eps_high, c > 1. All tensors have one shape, e.g. (batch, tokens).
Conditions are indicators: 1.0 where true, 0.0 elsewhere, in the type of the ratio. On a CPU comparing into a
float and multiplying runs several times faster than bool tensors and torch.where.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from rpg.objectives.divergences import Ratios
from rpg.objectives.spec import LossSpec


class Clipped(NamedTuple):
    """Result of a clip; the last four are indicators.

    Attributes:
        w: the ratio that the loss value is computed with.
        keep: 1 where the gradient passes, 0 where the loss is constant.
        high, low, c: which tokens are held at 1 + eps_high, at 1 - eps_low, at c.
    """

    w: Tensor
    keep: Tensor
    high: Tensor
    low: Tensor
    c: Tensor


def indicator(compare: Callable, a: Tensor, b: Tensor | float) -> Tensor:
    """1.0 where compare(a, b) holds, else 0.0, in a's type; NaN compares as false."""
    return compare(a, b, out=torch.empty_like(a))


def dual_clip(signal: Tensor, w: Tensor, spec: LossSpec) -> Clipped:
    """Dual clip of a differentiable loss -w * signal (the paper's Algorithm 1).

    signal >= 0: max(-w s, -clip(w, lo, hi) s) = -min(w, hi) s
    signal <  0: min(max(-w s, -clip(w, lo, hi) s), -c s) = -clip(w, lo, c) s

    At a bound itself both sides of the kink have the same value; the gradient is kept there, as autograd
    keeps it for torch.clamp. `signal` is the advantage (clip_scope "reward") or the regularised advantage
    A + C / w ("regularized"). Tokens with signal 0 are never counted as clipped, as in verl.
    """
    lo, hi, c = 1 - spec.clip_low, 1 + spec.clip_high, spec.clip_c
    positive, negative = indicator(torch.gt, signal, 0.0), indicator(torch.lt, signal, 0.0)
    bounded = torch.lerp(w.clamp(lo, c), w.clamp(max=hi), positive)  # lerp is exact at 0 and 1
    return Clipped(
        w=bounded,
        keep=indicator(torch.eq, bounded, w),
        high=indicator(torch.gt, w, hi).mul_(positive),
        low=indicator(torch.lt, w, lo).mul_(negative),
        c=indicator(torch.gt, w, c).mul_(negative),
    )


def rpg_style_clip(upper: Tensor, lower: Tensor, w: Tensor, spec: LossSpec) -> Clipped:
    """RPG-Style Clip of a REINFORCE loss (the paper's Algorithm 2).

    | branch | condition      | loss           | gradient               |
    | upper  | w <  hi        | psi * SG(w)    | -(w A + C) grad log pi |
    | upper  | w >= hi        | constant       | 0                      |
    | lower  | w <= lo        | constant       | 0                      |
    | lower  | lo < w < c     | psi * SG(w)    | -(w A + C) grad log pi |
    | lower  | w >= c         | constant       | 0                      |

    The constants are psi times the bound, so that the loss value has no jump. `upper` and `lower` are
    indicators of the branch, psi >= 0 and psi < 0 (or the advantage's sign with clip_branch "advantage").
    A token in neither has weight 0, hence loss and gradient 0; it is not counted as clipped.
    """
    lo, hi, c = 1 - spec.clip_low, 1 + spec.clip_high, spec.clip_c
    high = indicator(torch.ge, w, hi).mul_(upper)
    low = indicator(torch.le, w, lo).mul_(lower)
    above_c = indicator(torch.ge, w, c).mul_(lower)
    return Clipped(
        w=torch.lerp(w.clamp(lo, c), w.clamp(max=hi), upper),  # lerp is exact at 0 and 1
        keep=1.0 - (high + low).add_(above_c),
        high=high,
        low=low,
        c=above_c,
    )


def clamp_ratios(r: Ratios, spec: LossSpec) -> Ratios:
    """The ratios with w replaced by wb = clip(w, lo, hi) and log w by log wb; rho is left alone.

    Used whole by the hard clip, and for the KL component C by RPG-Style Clip (paper.md section 3).
    """
    lo, hi = 1 - spec.clip_low, 1 + spec.clip_high
    log_w = r.log_w.clamp(math.log(lo) if lo > 0 else -math.inf, math.log(hi))
    log_u = log_w if r.log_u is r.log_w else log_w + (r.log_u - r.log_w)
    return r._replace(w=r.w.clamp(lo, hi), log_w=log_w, log_u=log_u)


def outside(w: Tensor, spec: LossSpec) -> tuple[Tensor, Tensor]:
    """Which tokens the hard clip holds at 1 + eps_high and at 1 - eps_low, whatever the advantage's sign."""
    return indicator(torch.gt, w, 1 + spec.clip_high), indicator(torch.lt, w, 1 - spec.clip_low)
