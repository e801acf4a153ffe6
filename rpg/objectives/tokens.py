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
from rpg.objectives.losses import DIVERGENCES, differentiable_loss, ratios, reinforce_loss, sum_earlier
from rpg.objectives.spec import LossSpec


class TokenStats(NamedTuple):
    """Statistics per token, without gradients.

    Attributes:
        ratio: w; 1 at tokens that do not count.
        log_ratio: log w, not clamped at +-20; 0 at tokens that do not count.
        kl: estimate of the divergence D of the next token, with either kl_scope; its mean over x ~ pi_old is D; 0 at
            tokens that do not count.
        k1: w log u, whose mean over x ~ pi_old is KL(pi_theta, pi_ref), for every loss; unlike URKL's and UFKL's `kl`
            it grows with the logarithm of pi_ref / pi_theta, so that no single token rules a batch's mean.
        clipped_high, clipped_low, clipped_c: bool, clipped at 1 + eps_high, at 1 - eps_low, at c.
        rho_held: bool, the product of rho over the prefix was beyond exp(+-rho_bound).
        counted: bool, unmasked and all inputs finite; where it is false, the four above are false, too.
    """

    ratio: Tensor
    log_ratio: Tensor
    kl: Tensor
    k1: Tensor
    clipped_high: Tensor
    clipped_low: Tensor
    clipped_c: Tensor
    rho_held: Tensor
    counted: Tensor


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
            depends on what precedes the token, and on other responses, only. None means 0.
        All tensors have the same shape, e.g. (batch, tokens).

    Returns:
        loss of that shape, float64 if an input other than the mask is float64, else float32; and TokenStats. Loss
        and gradient are NaN at an unmasked token with NaN or Inf in an input.

    Raises:
        ValueError: shapes differ, or kl_baseline with FKL or UFKL.
    """
    given = {"ref_log_prob": ref_log_prob, "kl_baseline": kl_baseline}
    inputs = {"log_prob": log_prob, "old_log_prob": old_log_prob, "advantages": advantages}
    inputs |= {name: tensor for name, tensor in given.items() if tensor is not None}
    for name, tensor in (inputs if mask is None else inputs | {"mask": mask}).items():
        if tensor.shape != log_prob.shape:
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)}, log_prob has {tuple(log_prob.shape)}; "
                "all tensors must have one shape"
            )
    if kl_baseline is not None and spec.divergence not in REVERSE:
        raise ValueError(f"kl_baseline with {spec.name}: it is for {' and '.join(REVERSE)}; pass None")
    values, counted, factor = _clean(inputs, mask)
    r = ratios(values["log_prob"], values["old_log_prob"], values.get("ref_log_prob"))
    if kl_baseline is not None:
        r = r._replace(later=-values["kl_baseline"])
    rho_held = torch.zeros_like(counted)
    if spec.has_prefix and ref_log_prob is not None:
        log_prefix = sum_earlier(r.log_rho)  # type: ignore[arg-type]  # a tensor, since there is a reference
        bounded = log_prefix.clamp(-spec.rho_bound, spec.rho_bound)
        rho_held = (bounded != log_prefix) & counted
        r = r._replace(prefix=bounded.exp_())
    formula = differentiable_loss if spec.estimator == "differentiable" else reinforce_loss
    loss, clipped = formula(spec, r, values["advantages"])
    divergence = DIVERGENCES[spec.divergence]
    mass = 1.0 if divergence.normalized else spec.z_old
    r, (high, low, c) = r.detach(), (tokens & counted for tokens in clipped)
    kl, k1 = mass * divergence.estimate(r), DIVERGENCES["rkl"].estimate(r)
    return loss * (mass * factor), TokenStats(r.w, r.log_w, kl, k1, high, low, c, rho_held, counted)


def _clean(inputs: dict[str, Tensor], mask: Tensor | None) -> tuple[dict[str, Tensor], Tensor, Tensor]:
    """The inputs in the loss's precision, 0 at tokens that do not count; which tokens count; the factor of the loss.

    A token counts if it is unmasked and its inputs are finite. The factor, of value and gradient, is 1 at tokens that
    count, 0 at masked ones, else NaN. No masked_fill, no where: on a CPU, each takes as long as seven
    multiplications, and again in the backward pass.
    """
    dtype = torch.float64 if any(tensor.dtype == torch.float64 for tensor in inputs.values()) else torch.float32
    values = {name: tensor.detach().to(dtype) for name, tensor in inputs.items()}
    zero = torch.zeros_like(values["log_prob"])
    for tensor in values.values():
        zero += 0.0 * tensor  # NaN if it is not finite
    masked = torch.zeros_like(zero, dtype=torch.bool) if mask is None else ~mask.bool()
    counted = (zero == 0) & ~masked
    one = counted.to(dtype)
    x = inputs["log_prob"]
    values["log_prob"] = _SaturatedGradient.apply(x) if x.dtype == torch.float16 else x.to(dtype)
    values = {name: tensor.nan_to_num(0.0, 0.0, 0.0).mul_(one) for name, tensor in values.items()}
    return values, counted, one / (counted | masked)  # the rest: 0 / 0


class _SaturatedGradient(torch.autograd.Function):
    """Cast float16 to float32; the gradient saturates at 65504 instead of becoming Inf."""

    @staticmethod
    def forward(ctx, tensor: Tensor) -> Tensor:
        return tensor.float()

    @staticmethod
    def backward(ctx, gradient: Tensor) -> Tensor:
        limit = torch.finfo(torch.float16).max
        return gradient.clamp(-limit, limit).to(torch.float16)


Number = TypeVar("Number", Tensor, float)


class Summary(NamedTuple, Generic[Number]):
    """TokenStats reduced over the unmasked tokens whose inputs are finite: 0-dimensional float64 tensors, or floats.

    Attributes:
        tokens: their number; without any, sums and counts are 0 and the extremes of w are 1.
        not_finite: number of unmasked tokens with NaN or Inf in an input, which nothing else here includes.
        ratio_sum, log_ratio_sum, kl_sum, k1_sum, high, low, c, rho_held: sums of TokenStats.
        ratio_max, ratio_min: extremes of w.
    """

    tokens: Number
    not_finite: Number
    ratio_sum: Number
    log_ratio_sum: Number
    kl_sum: Number
    k1_sum: Number
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

    def number(tokens: Tensor) -> Tensor:
        return tokens.count_nonzero().double()

    def total(values: Tensor) -> Tensor:
        return values.sum(dim=-1).double().sum()  # a cast of all values takes longer than their sum

    tokens, one = number(stats.counted), stats.counted.to(stats.ratio.dtype)
    ratio, ratio_or_inf = stats.ratio * one, stats.ratio / one
    largest, smallest = (ratio.amax(), ratio_or_inf.amin()) if mask.numel() else (tokens, tokens)
    return loss, Summary(
        tokens=tokens,
        not_finite=number(mask) - tokens,
        ratio_sum=total(ratio),
        log_ratio_sum=total(stats.log_ratio),
        kl_sum=total(stats.kl),
        k1_sum=total(stats.k1),
        high=number(stats.clipped_high),
        low=number(stats.clipped_low),
        c=number(stats.clipped_c),
        ratio_max=torch.where(tokens > 0, largest, 1.0).double(),
        ratio_min=torch.where(tokens > 0, smallest, 1.0).double(),
        rho_held=number(stats.rho_held),
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
