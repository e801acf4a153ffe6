"""token_loss: the one function that turns log-probs and advantages into a per-token loss.

The derivative of every loss by log pi_theta has a closed form. Value and derivative are computed in one go,
and the derivative is the only tensor kept for the backward pass: no graph, no second evaluation. The work
is done in pieces that fit a processor's cache, so that intermediate results never travel to memory.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from rpg.objectives.spec import LossSpec
from rpg.objectives.stats import PerToken, Summary, Summed
from rpg.objectives.terms import Included, TokenStats, evaluate

# Tokens evaluated at a time. CPU: temporaries of 256 KiB, which stay in cache and are recycled by malloc.
# Elsewhere launching kernels is what costs, and the limit only bounds the temporaries' memory.
PIECE_CPU = 1 << 16
PIECE_OTHER = 1 << 22


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
    inputs = _checked(log_prob, old_log_prob, advantages, ref_log_prob, mask)
    stats = PerToken(log_prob, _compute_dtype(*inputs[:4]))
    return _TokenLoss.apply(spec, stats, *inputs), stats.result()


def token_loss_summary(
    spec: LossSpec,
    *,
    log_prob: Tensor,
    old_log_prob: Tensor,
    advantages: Tensor,
    ref_log_prob: Tensor | None = None,
    mask: Tensor | None = None,
) -> tuple[Tensor, Summary]:
    """token_loss with the statistics already reduced over tokens, which saves their memory and most time."""
    stats = Summed()
    inputs = _checked(log_prob, old_log_prob, advantages, ref_log_prob, mask)
    return _TokenLoss.apply(spec, stats, *inputs), stats.result()


def _checked(log_prob: Tensor, *others: Tensor | None) -> tuple[Tensor | None, ...]:
    names = ("old_log_prob", "advantages", "ref_log_prob", "mask")
    for name, tensor in zip(names, others, strict=True):
        if tensor is not None and tensor.shape != log_prob.shape:
            raise ValueError(
                f"{name} has shape {tuple(tensor.shape)}, log_prob has {tuple(log_prob.shape)}; "
                "all tensors must have one shape"
            )
    return log_prob, *others


def _compute_dtype(*tensors: Tensor | None) -> torch.dtype:
    """float64 if any input is, else float32: half precision is only a storage format here."""
    return torch.float64 if any(t is not None and t.dtype == torch.float64 for t in tensors) else torch.float32


class _TokenLoss(torch.autograd.Function):
    """Forward: value and slope. Backward: incoming gradient times slope."""

    @staticmethod
    def forward(ctx: Any, spec, stats, log_prob, old_log_prob, advantages, ref_log_prob, mask):
        dtype = _compute_dtype(log_prob, old_log_prob, advantages, ref_log_prob)
        mask = None if mask is None else mask.reshape(-1)
        ref = None if ref_log_prob is None else ref_log_prob.reshape(-1)
        x, old, advantages = log_prob.reshape(-1), old_log_prob.reshape(-1), advantages.reshape(-1)
        loss = torch.empty(log_prob.shape, dtype=dtype, device=log_prob.device)
        slope = torch.empty_like(loss)
        flat_loss, flat_slope = loss.view(-1), slope.view(-1)
        piece = PIECE_CPU if log_prob.device.type == "cpu" else PIECE_OTHER
        for start in range(0, log_prob.numel(), piece):
            part = slice(start, start + piece)
            included = None if mask is None else Included.of(mask[part], dtype)
            flat_loss[part], flat_slope[part], piece_stats = evaluate(
                spec,
                x[part].to(dtype),
                old[part].to(dtype),
                advantages[part].to(dtype),
                None if ref is None else ref[part].to(dtype),
                included,
            )
            stats.add(part, piece_stats, included)
        ctx.save_for_backward(slope)
        ctx.input_dtype = log_prob.dtype
        return loss

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad_loss: Tensor):
        (slope,) = ctx.saved_tensors
        gradient = grad_loss * slope
        if ctx.input_dtype == torch.float16:
            # float16 ends at 65504: saturate rather than hand an infinity to the model
            limit = torch.finfo(torch.float16).max
            gradient = gradient.clamp(-limit, limit)
        return None, None, gradient.to(ctx.input_dtype), None, None, None, None
