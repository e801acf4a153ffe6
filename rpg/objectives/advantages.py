"""RPG's advantages (the paper, Section 5): one value per response, repeated over its tokens; vectorised."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from rpg.objectives.losses import sum_later


def group_mean_advantages(rewards: Tensor, mask: Tensor, groups: np.ndarray | Tensor | Sequence) -> Tensor:
    """Estimator `rpg`: A = reward - mean reward of the prompt's group; a group of one keeps its reward.

    No division by the standard deviation (the paper, Section 5).

    Args:
        rewards: (batch, tokens), token rewards; a response's reward is their sum.
        mask: (batch, tokens), nonzero at valid tokens.
        groups: (batch,), a hashable label per response, in any order.

    Returns:
        (batch, tokens) in the dtype of rewards: A at valid tokens, 0 elsewhere.

    Raises:
        ValueError: the number of labels is not the number of responses.
        FloatingPointError: NaN or Inf among the rewards of valid tokens.
    """
    scores = _scores(rewards, mask)
    if len(groups) != len(scores):
        raise ValueError(f"{len(groups)} group labels for {len(scores)} responses")
    codes = _codes(groups, scores.device)
    sizes = torch.bincount(codes)
    sums = scores.new_zeros(len(sizes)).index_add_(0, codes, scores)
    means = (sums / sizes).masked_fill(sizes == 1, 0.0)
    return _spread(scores - means[codes], rewards, mask)


def batch_mean_advantages(rewards: Tensor, mask: Tensor) -> Tensor:
    """Estimator `rpg_batchmean`: A = reward - mean reward of the whole batch (the paper, Section 5).

    Args, returns and errors as in group_mean_advantages. A batch of one has advantage 0. Rows without
    valid tokens, with which verl pads a batch to whole mini-batches, are left out of the mean.
    """
    scores = _scores(rewards, mask)
    responses = mask.ne(0).any(dim=-1)
    baseline = scores[responses].mean() if responses.any() else 0.0
    return _spread(scores - baseline, rewards, mask)


def later_kl_baseline(
    old_log_prob: Tensor, ref_log_prob: Tensor, mask: Tensor, index: np.ndarray | Tensor | Sequence
) -> Tensor:
    """Baseline of the later KL terms of RKL and URKL (`kl_baseline` of token_loss), from the group's other responses.

    At each position: the mean over the other responses of the sum over their later tokens of -log rho, which is
    log pi_old - log pi_ref, known when the batch is sampled. A response that has ended counts as 0. The response's own
    sum depends on the token and would bias the gradient. A group of one has baseline 0. A response with NaN or Inf at
    a valid token is left out of its group: the loss skips its mini-batch, not others.

    Args:
        old_log_prob, ref_log_prob: (batch, tokens); the tokens of a response in order. NaN is possible where masked.
        mask: (batch, tokens), nonzero at valid tokens.
        index: (batch,), a hashable label per response, in any order; verl's uid.

    Returns:
        (batch, tokens), without gradient, in float64 if a log-prob is float64, else float32; 0 where masked.

    Raises:
        ValueError: shapes differ, or the number of labels is not the number of responses.
    """
    if not old_log_prob.shape == ref_log_prob.shape == mask.shape:
        shapes = ", ".join(str(tuple(tensor.shape)) for tensor in (old_log_prob, ref_log_prob, mask))
        raise ValueError(f"old_log_prob, ref_log_prob and mask have shapes {shapes}; they must have one shape")
    if len(index) != len(mask):
        raise ValueError(f"{len(index)} group labels for {len(mask)} responses")
    dtype = torch.promote_types(torch.promote_types(old_log_prob.dtype, ref_log_prob.dtype), torch.float32)
    log_u = (old_log_prob.detach().to(dtype) - ref_log_prob.detach().to(dtype)).masked_fill(mask == 0, 0.0)
    finite = log_u.isfinite().all(-1, keepdim=True)
    to_go = sum_later(log_u.masked_fill(~finite, 0.0))
    codes = _codes(index, mask.device)
    counted = finite.to(dtype)
    sizes = to_go.new_zeros(len(index), 1).index_add_(0, codes, counted)  # at most a group per response
    sums = to_go.new_zeros(len(index), to_go.shape[-1]).index_add_(0, codes, to_go)
    others = sizes[codes] - counted
    return ((sums[codes] - to_go) / others).masked_fill((others < 1) | (mask == 0), 0.0)


def _scores(rewards: Tensor, mask: Tensor) -> Tensor:
    """(batch,), float64: the sum of each row, as in verl's estimators; for a row with NaN or Inf, the sum over its
    valid tokens."""
    if rewards.shape != mask.shape:
        raise ValueError(f"rewards have shape {tuple(rewards.shape)}, mask has {tuple(mask.shape)}")
    scores = rewards.detach().sum(dim=-1).double()  # the means need float64, a row of mostly zeros does not
    if not scores.isfinite().all():
        masked = rewards.detach().masked_fill(mask == 0, 0.0)
        scores = torch.where(scores.isfinite(), scores, masked.sum(dim=-1).double())
    if not scores.isfinite().all():
        bad = (~scores.isfinite()).nonzero().flatten().tolist()
        raise FloatingPointError(f"token_level_rewards: NaN or infinity in response(s) {bad[:10]}")
    return scores


def _codes(groups: np.ndarray | Tensor | Sequence, device: torch.device) -> Tensor:
    """Group labels as integers 0..G-1, by hashing: uids are strings, which sorting would compare at length."""
    labels = groups.tolist() if isinstance(groups, np.ndarray | Tensor) else list(groups)
    code_of = {label: code for code, label in enumerate(dict.fromkeys(labels))}
    codes = np.fromiter(map(code_of.__getitem__, labels), dtype=np.int64, count=len(labels))
    return torch.from_numpy(codes).to(device)


def _spread(values: Tensor, rewards: Tensor, mask: Tensor) -> Tensor:
    """(batch,) -> (batch, tokens), 0 where the mask is 0."""
    dtype = rewards.dtype if rewards.dtype.is_floating_point else torch.float32
    return torch.where(mask != 0, values.to(dtype).unsqueeze(-1), 0.0)
