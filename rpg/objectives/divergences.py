"""The four divergences: one row of the paper's Tables 1, 2 and 4 each, with the reference kept general.

Notation, per token: w = pi_theta / pi_old, rho = pi_ref / pi_old, u = pi_theta / pi_ref, x = log pi_theta.
Everything here is the part that beta multiplies; the reward part (w A) is the same for all four and lives
in clip.py and loss.py. All tensors have one shape, for example (batch, tokens).
"""

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor


class Ratios(NamedTuple):
    """What the four rows are written in.

    Attributes:
        x: log pi_theta.
        w: pi_theta / pi_old, from a log-ratio clamped at +-20.
        dw: derivative of w by x: w itself, 0 where the clamp is active.
        log_w: log pi_theta - log pi_old, not clamped at +-20: it is never exponentiated.
        dlog_w: derivative of log_w by x: 1.0, and 0 where the hard clip holds w at a bound.
        rho: pi_ref / pi_old, 1.0 where the reference is pi_old.
        log_u: log pi_theta - log pi_ref, not clamped.
    """

    x: Tensor
    w: Tensor
    dw: Tensor
    log_w: Tensor
    dlog_w: Tensor | float
    rho: Tensor | float
    log_u: Tensor


class Divergence(NamedTuple):
    """One divergence D as functions of the ratios.

    Attributes:
        name: fkl, rkl, ufkl or urkl.
        normalized: whether D is defined between normalised policies (then Z_old does not enter).
        loss: the KL part of the differentiable loss per sample (fifth column of the paper's table).
        slope: derivative of `loss` by log pi_theta.
        weight: C / beta, the KL part of the weight of grad log pi_theta in grad J (fourth column).
        estimate: a value whose mean over x ~ pi_old is D (divided by Z_old for the unnormalised two).
    """

    name: str
    normalized: bool
    loss: Callable[[Ratios], Tensor]
    slope: Callable[[Ratios], Tensor]
    weight: Callable[[Ratios], Tensor]
    estimate: Callable[[Ratios], Tensor]


def _constant(value: Tensor | float, like: Tensor) -> Tensor:
    """`value` as a tensor of like's shape (rho is the number 1.0 where the reference is pi_old)."""
    return value.clone() if isinstance(value, Tensor) else like.new_full(like.shape, value)


FKL = Divergence(  # KL(pi_ref, pi_theta)
    name="fkl",
    normalized=True,
    loss=lambda r: -r.rho * r.x,
    slope=lambda r: -_constant(r.rho, r.w),
    weight=lambda r: _constant(r.rho, r.w),
    estimate=lambda r: -r.rho * r.log_u,
)

RKL = Divergence(  # KL(pi_theta, pi_ref)
    name="rkl",
    normalized=True,
    loss=lambda r: r.w * r.log_u,
    slope=lambda r: r.dw * r.log_u + r.w * r.dlog_w,
    weight=lambda r: -r.w * (r.log_u + 1),
    estimate=lambda r: r.w * r.log_u,
)

UFKL = Divergence(  # FKL + mass(pi_theta) - mass(pi_ref)
    name="ufkl",
    normalized=False,
    loss=lambda r: r.w - r.rho * r.log_w - r.rho,
    slope=lambda r: r.dw - r.rho * r.dlog_w,
    weight=lambda r: r.rho - r.w,
    estimate=lambda r: r.w - r.rho - r.rho * r.log_u,
)

URKL = Divergence(  # RKL + mass(pi_ref) - mass(pi_theta)
    name="urkl",
    normalized=False,
    loss=lambda r: r.w * r.log_u - r.w,
    slope=lambda r: r.dw * (r.log_u - 1) + r.w * r.dlog_w,
    weight=lambda r: -r.w * r.log_u,
    estimate=lambda r: r.w * r.log_u - r.w + r.rho,
)

DIVERGENCES: dict[str, Divergence] = {"fkl": FKL, "rkl": RKL, "ufkl": UFKL, "urkl": URKL}
