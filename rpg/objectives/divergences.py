"""The four divergences: one row of the paper's Tables 1, 2 and 4 each, with the reference kept general.

Notation, per token: w = pi_theta / pi_old, rho = pi_ref / pi_old, u = pi_theta / pi_ref, x = log pi_theta.
Everything here is the part that beta multiplies; the reward part (w A) is the same for all four and lives
in terms.py. All tensors have one shape, for example (batch, tokens).
"""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Ratios(NamedTuple):
    """What the four rows are written in.

    Attributes:
        x: log pi_theta.
        w: pi_theta / pi_old, from a log-ratio clamped at +-20.
        log_w: log pi_theta - log pi_old, not clamped at +-20: it is never exponentiated.
        rho: pi_ref / pi_old, 1.0 where the reference is pi_old.
        log_u: log pi_theta - log pi_ref, not clamped at +-20.
    """

    x: Tensor
    w: Tensor
    log_w: Tensor
    rho: Tensor | float
    log_u: Tensor


class Divergence(NamedTuple):
    """One divergence D as functions of the ratios.

    Attributes:
        name: fkl, rkl, ufkl or urkl.
        normalized: whether D is defined between normalised policies (then Z_old does not enter).
        loss: the KL part of the differentiable loss per sample (fifth column of the paper's table).
        slope: derivative of `loss` by x, given dw and dlog_w, the derivatives of w and log w by x. Where no
            clamp is active dw = w and dlog_w = 1, and the slope is minus the weight.
        weight: C / beta, the KL part of the weight of grad log pi_theta in grad J (fourth column).
        estimate: a value whose mean over x ~ pi_old is D (divided by Z_old for the unnormalised two).
    """

    name: str
    normalized: bool
    loss: Callable[[Ratios], Tensor]
    slope: Callable[[Ratios, Tensor, Tensor | float], Tensor]
    weight: Callable[[Ratios], Tensor]
    estimate: Callable[[Ratios], Tensor]


def _times(factor: Tensor | float, tensor: Tensor) -> Tensor:
    """factor * tensor, without a pass over memory where factor is the number 1 (rho of pi_ref = pi_old)."""
    return tensor if isinstance(factor, float) and factor == 1.0 else factor * tensor


def _constant(value: Tensor | float, like: Tensor) -> Tensor:
    """`value` as a tensor of like's shape."""
    return value if isinstance(value, Tensor) else torch.full_like(like, value)


FKL = Divergence(  # KL(pi_ref, pi_theta)
    name="fkl",
    normalized=True,
    loss=lambda r: -_times(r.rho, r.x),
    slope=lambda r, dw, dlog_w: -_constant(r.rho, r.w),
    weight=lambda r: _constant(r.rho, r.w),
    estimate=lambda r: -_times(r.rho, r.log_u),
)

RKL = Divergence(  # KL(pi_theta, pi_ref)
    name="rkl",
    normalized=True,
    loss=lambda r: r.w * r.log_u,
    slope=lambda r, dw, dlog_w: dw * r.log_u + _times(dlog_w, r.w),
    weight=lambda r: (-1 - r.log_u) * r.w,
    estimate=lambda r: r.w * r.log_u,
)

UFKL = Divergence(  # FKL + mass(pi_theta) - mass(pi_ref)
    name="ufkl",
    normalized=False,
    loss=lambda r: r.w - _times(r.rho, r.log_w + 1),
    slope=lambda r, dw, dlog_w: dw - r.rho * dlog_w,
    weight=lambda r: r.rho - r.w,
    estimate=lambda r: r.w - _times(r.rho, r.log_u + 1),
)

URKL = Divergence(  # RKL + mass(pi_ref) - mass(pi_theta)
    name="urkl",
    normalized=False,
    loss=lambda r: r.w * (r.log_u - 1),
    slope=lambda r, dw, dlog_w: dw * (r.log_u - 1) + _times(dlog_w, r.w),
    weight=lambda r: -r.log_u * r.w,
    estimate=lambda r: r.w * (r.log_u - 1) + r.rho,
)

DIVERGENCES: dict[str, Divergence] = {"fkl": FKL, "rkl": RKL, "ufkl": UFKL, "urkl": URKL}
