"""token_loss computes a loss and statistics per token from log-probs and advantages, plain or compiled.

This file handles masks, precision and statistics; losses.py holds the formulas.
"""

import functools
import math
import warnings
from collections.abc import Callable, Iterable
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from rpg.names import REVERSE
from rpg.objectives.losses import DIVERGENCES, Ratios, differentiable_loss, ratios, reinforce_loss, sum_earlier
from rpg.objectives.spec import LossSpec


class TokenStats(NamedTuple):
    """Statistics per token, without gradients.

    Attributes:
        ratio: w; 1 at masked tokens.
        log_ratio: log w, not clamped at +-20; 0 at masked tokens.
        kl: estimate of the divergence D of the next token, with either kl_scope; its mean over x ~ pi_old is D; 0 at
            masked tokens.
        clipped_high, clipped_low, clipped_c: bool, clipped at 1 + eps_high, at 1 - eps_low, at c.
        rho_held: bool, the product of rho over the prefix was beyond exp(+-rho_bound).
    """

    ratio: Tensor
    log_ratio: Tensor
    kl: Tensor
    clipped_high: Tensor
    clipped_low: Tensor
    clipped_c: Tensor
    rho_held: Tensor


def token_loss(
    spec: LossSpec,
    *,
    log_prob: Tensor,
    old_log_prob: Tensor,
    advantages: Tensor,
    ref_log_prob: Tensor | None = None,
    mask: Tensor | None = None,
    kl_baseline: Tensor | None = None,
) -> tuple[Tensor, TokenStats]:
    """Per-token loss whose gradient, in expectation over x ~ pi_old, is -grad J, J = E[A] - beta D.

    For clip_scope "none" and for `rpg_rf_<d>` the expectation is exact where x is a token with its prefix fixed, with
    kl_scope "response" on fresh samples where x is a response (docs/mathematics.md): a row of the last dimension is one
    response, its tokens in order; masked tokens are skipped.

    Args:
        spec: which loss.
        log_prob: log pi_theta, the only input that gets a gradient.
        old_log_prob: log pi_old.
        advantages: A.
        ref_log_prob: log pi_ref; None means pi_ref = pi_old.
        mask: nonzero at valid tokens; None means all. At masked tokens inputs may be NaN, and loss and gradient
            are exactly 0.
        kl_baseline: b of the KL part -beta w (log u + later - b) of the weight, for RKL and URKL. It is exact if it
            depends on what precedes the token only; later_kl_baseline's includes 1/k of the response's own later
            terms. None means 0.
        All tensors have the same shape, e.g. (batch, tokens).

    Returns:
        loss of that shape, float64 if any log-prob or advantage is float64, else float32; and TokenStats. Loss and
        gradient are NaN at an unmasked token with NaN or Inf in an input.

    Raises:
        ValueError: shapes differ, or kl_baseline with FKL or UFKL.
    """
    inputs = {
        "old_log_prob": old_log_prob,
        "advantages": advantages,
        "ref_log_prob": ref_log_prob,
        "mask": mask,
        "kl_baseline": kl_baseline,
    }
    for name, tensor in inputs.items():
        if tensor is not None and tensor.shape != log_prob.shape:
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)}, log_prob has {tuple(log_prob.shape)}; "
                "all tensors must have one shape"
            )
    if kl_baseline is not None and spec.divergence not in REVERSE:
        raise ValueError(f"kl_baseline with {spec.name}: it is for {' and '.join(REVERSE)}; pass None")
    tensors = [tensor for tensor in (log_prob, old_log_prob, advantages, ref_log_prob) if tensor is not None]
    dtype = torch.float64 if any(tensor.dtype == torch.float64 for tensor in tensors) else torch.float32
    ignored = None if mask is None else mask == 0
    x, *others = (tensor.to(dtype) for tensor in tensors)
    old, advantages, *ref = (tensor.detach() for tensor in others)
    if log_prob.dtype == torch.float16:
        x = _SaturatedGradient.apply(log_prob)
    if ignored is not None:
        advantages = advantages.masked_fill(ignored, 0.0)
    r = ratios(x, old, ref[0] if ref else None, ignored)
    if kl_baseline is not None:
        baseline = kl_baseline.detach().to(dtype)
        r = r._replace(later=-baseline if ignored is None else baseline.masked_fill(ignored, 0.0).neg_())
    rho_held = torch.zeros((), dtype=torch.bool, device=x.device).expand_as(x)
    if spec.has_prefix and ref:
        log_prefix = sum_earlier(r.log_rho)  # type: ignore[arg-type]  # a tensor, since there is a reference
        bounded = log_prefix.clamp(-spec.rho_bound, spec.rho_bound)
        rho_held = bounded != log_prefix
        r = r._replace(prefix=bounded.exp_())
    formula = differentiable_loss if spec.estimator == "differentiable" else reinforce_loss
    loss, signal = formula(spec, r, advantages)
    mass = 1.0 if DIVERGENCES[spec.divergence].normalized else spec.z_old
    if mass != 1.0:
        loss = mass * loss
    # Clamped ratios would turn an infinite input into a finite loss: 0 where all inputs are finite, else NaN.
    nothing = functools.reduce(torch.add, (0.0 * tensor for tensor in (x.detach(), old, advantages, *ref)))
    if ignored is None:
        loss = loss + nothing * x
    else:
        loss = (loss + nothing.masked_fill(ignored, 0.0) * x).masked_fill(ignored, 0.0)
    with torch.no_grad():
        return loss, statistics(spec, r.detach(), signal, advantages, mass, rho_held, ignored)


class _SaturatedGradient(torch.autograd.Function):
    """Cast float16 to float32; the gradient saturates at 65504 instead of becoming Inf."""

    @staticmethod
    def forward(ctx, tensor: Tensor) -> Tensor:
        return tensor.float()

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        limit = torch.finfo(torch.float16).max
        return gradient.clamp(-limit, limit).to(torch.float16)


def statistics(
    spec: LossSpec,
    r: Ratios,
    signal: Tensor,
    advantages: Tensor,
    mass: float,
    rho_held: Tensor,
    ignored: Tensor | None,
) -> TokenStats:
    """Statistics per token. signal: the second result of differentiable_loss or reinforce_loss.

    As in verl, a token with signal 0 never counts as clipped. A dual clip acts outside its bounds, RPG-Style Clip
    also at them.
    """
    lo, hi = spec.bounds
    w = r.w
    match spec.rule:
        case "none":
            high = low = c = torch.zeros_like(w, dtype=torch.bool)
        case "hard":
            high, low, c = w > hi, w < lo, torch.zeros_like(w, dtype=torch.bool)
        case "reward" | "regularized" | "dual":
            high, low, c = (signal > 0) & (w > hi), (signal < 0) & (w < lo), (signal < 0) & (w > spec.clip_c)
        case _:
            upper, nonzero = (signal if spec.rule == "psi" else advantages) >= 0, signal != 0
            high = nonzero & upper & (w >= hi)
            low, c = nonzero & ~upper & (w <= lo), nonzero & ~upper & (w >= spec.clip_c)
    kl = mass * DIVERGENCES[spec.divergence].estimate(r)
    if ignored is not None:
        kl = kl.masked_fill(ignored, 0.0)
        high, low, c, rho_held = (flag & ~ignored for flag in (high, low, c, rho_held))
    return TokenStats(w, r.log_w, kl, high, low, c, rho_held)


Number = TypeVar("Number", Tensor, float)


class Summary(NamedTuple, Generic[Number]):
    """TokenStats reduced over the unmasked tokens whose inputs are finite: 0-dimensional float64 tensors, or floats.

    Attributes:
        tokens: their number; without any, sums and counts are 0 and the extremes of w are 1.
        not_finite: number of unmasked tokens with NaN or Inf in an input, which nothing else here includes.
        ratio_sum, log_ratio_sum, kl_sum, high, low, c, rho_held: sums of TokenStats.
        ratio_max, ratio_min: extremes of w.
    """

    tokens: Number
    not_finite: Number
    ratio_sum: Number
    log_ratio_sum: Number
    kl_sum: Number
    high: Number
    low: Number
    c: Number
    ratio_max: Number
    ratio_min: Number
    rho_held: Number


def floats(summary: Summary[Tensor]) -> Summary[float]:
    """Copy a summary to the host, in one transfer."""
    return Summary(*torch.stack(list(summary)).tolist())


def pooled(summaries: Iterable[Summary[float]]) -> Summary[float]:
    """Return the Summary of all tokens of several: sums are added, extremes remain extremes."""
    parts = list(summaries)
    total = {name: math.fsum(getattr(part, name) for part in parts) for name in Summary._fields}
    ratio_max = max((part.ratio_max for part in parts if part.tokens), default=1.0)
    ratio_min = min((part.ratio_min for part in parts if part.tokens), default=1.0)
    return Summary(**total | {"ratio_max": ratio_max, "ratio_min": ratio_min})


def token_loss_summary(spec: LossSpec, *, mask: Tensor, **inputs: Tensor | None) -> tuple[Tensor, Summary[Tensor]]:
    """token_loss with its statistics reduced over the tokens that count; arguments and errors are token_loss's."""
    loss, stats = token_loss(spec, mask=mask, **inputs)  # type: ignore[arg-type]
    unmasked = mask != 0
    finite = torch.stack([tensor.isfinite() for tensor in inputs.values() if tensor is not None]).all(dim=0)
    counted = unmasked & finite
    largest = stats.ratio.masked_fill(~counted, -math.inf).amax() if mask.numel() else stats.ratio.new_ones(())
    smallest = stats.ratio.masked_fill(~counted, math.inf).amin() if mask.numel() else stats.ratio.new_ones(())

    def total(values: Tensor) -> Tensor:
        return values.masked_fill(~counted, 0).sum(dtype=torch.float64)

    return loss, Summary(
        tokens=total(counted),
        not_finite=(unmasked & ~finite).sum(dtype=torch.float64),
        ratio_sum=total(stats.ratio),
        log_ratio_sum=total(stats.log_ratio),
        kl_sum=total(stats.kl),
        high=total(stats.clipped_high),
        low=total(stats.clipped_low),
        c=total(stats.clipped_c),
        ratio_max=torch.where(counted.any(), largest, 1.0).double(),
        ratio_min=torch.where(counted.any(), smallest, 1.0).double(),
        rho_held=total(stats.rho_held),
    )


@functools.cache
def compiled(device: torch.device) -> Callable[..., tuple[Tensor, Summary[Tensor]]]:
    """token_loss_summary under torch.compile with dynamic shapes; itself, with one warning, where nothing compiles.

    Compiling takes 10 to 25 s at the first call of each loss.
    """
    from torch._dynamo.exc import BackendCompilerFailed  # two seconds, which only who compiles pays

    trial = torch.zeros(2, 3, device=device, requires_grad=True)
    try:
        torch.compile(lambda values: values.exp().sum())(trial).backward()
    except BackendCompilerFailed as error:
        warnings.warn(
            f"actor.use_torch_compile: torch cannot compile for {device.type} here, so the losses run uncompiled: "
            f"{' '.join(str(error).splitlines()[:2])}",
            stacklevel=2,
        )
        return token_loss_summary
    return torch.compile(token_loss_summary, dynamic=True)
