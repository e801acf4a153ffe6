"""Baselines of paper.md section 5: one value a response, spread over its tokens; no loop over samples."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def group_mean_advantages(rewards: Tensor, mask: Tensor, groups: np.ndarray | Tensor | Sequence) -> Tensor:
    """Estimator `rpg`: A = reward - mean reward of the prompt's group; a group of one keeps its reward.

    No division by the standard deviation (paper.md section 5).

    Args:
        rewards: (batch, tokens), token rewards; a response's reward is their sum.
        mask: (batch, tokens), nonzero where a token counts.
        groups: (batch,), a label for each response, of any hashable and sortable kind, in any order.

    Returns:
        (batch, tokens) in the dtype of rewards: A at every token that counts, 0 elsewhere.

    Raises:
        ValueError: the number of labels is not the number of responses.
        FloatingPointError: NaN or infinity among the rewards of tokens that count.
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
    """Estimator `rpg_batchmean`: A = reward - mean reward of the whole batch (paper.md section 5).

    Args, returns and errors as in group_mean_advantages. A batch of one has advantage 0.
    """
    scores = _scores(rewards, mask)
    baseline = scores.mean() if len(scores) else 0.0
    return _spread(scores - baseline, rewards, mask)


def _scores(rewards: Tensor, mask: Tensor) -> Tensor:
    """(batch,), float64: the sum of each row; rows with NaN or infinity are summed again under the mask."""
    if rewards.shape != mask.shape:
        raise ValueError(f"rewards have shape {tuple(rewards.shape)}, mask has {tuple(mask.shape)}")
    scores = rewards.detach().sum(dim=-1, dtype=torch.float64)
    suspicious = ~scores.isfinite()
    if suspicious.any():
        rows = rewards.detach()[suspicious].masked_fill(mask[suspicious] == 0, 0.0)
        scores[suspicious] = rows.sum(dim=-1, dtype=torch.float64)
        if not scores.isfinite().all():
            bad = (~scores.isfinite()).nonzero().flatten().tolist()
            raise FloatingPointError(f"token_level_rewards: NaN or infinity in response(s) {bad[:10]}")
    return scores


def _codes(groups: np.ndarray | Tensor | Sequence, device: torch.device) -> Tensor:
    """Group labels as integers 0..G-1."""
    labels = groups.cpu().numpy() if isinstance(groups, Tensor) else np.asarray(groups)
    return torch.from_numpy(np.unique(labels, return_inverse=True)[1].reshape(-1)).to(device)


def _spread(values: Tensor, rewards: Tensor, mask: Tensor) -> Tensor:
    """(batch,) -> (batch, tokens), 0 where the mask is 0."""
    dtype = rewards.dtype if rewards.dtype.is_floating_point else torch.float32
    return values.to(dtype).unsqueeze(-1) * (mask != 0)
