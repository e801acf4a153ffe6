"""Baselines of paper.md section 5: one value a response, spread over its tokens; no loop over samples."""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

ROWS_CPU = 256  # rows written at a time: the second pass over them finds them in cache


def group_mean_advantages(rewards: Tensor, mask: Tensor, groups: np.ndarray | Tensor | Sequence) -> Tensor:
    """Estimator `rpg`: A = reward - mean reward of the prompt's group; a group of one keeps its reward.

    No division by the standard deviation (paper.md section 5).

    Args:
        rewards: (batch, tokens), token rewards; a response's reward is their sum.
        mask: (batch, tokens), nonzero where a token counts.
        groups: (batch,), a label for each response, of any hashable kind, in any order.

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

    Args, returns and errors as in group_mean_advantages. A batch of one has advantage 0. Rows without a token, with
    which verl fills a batch up to whole mini-batches, are none of its responses.
    """
    scores = _scores(rewards, mask)
    responses = mask.ne(0).any(dim=-1)
    baseline = scores[responses].mean() if responses.any() else 0.0
    return _spread(scores - baseline, rewards, mask)


def _scores(rewards: Tensor, mask: Tensor) -> Tensor:
    """(batch,), float64: the sum of each row; rows with NaN or infinity are summed again under the mask."""
    if rewards.shape != mask.shape:
        raise ValueError(f"rewards have shape {tuple(rewards.shape)}, mask has {tuple(mask.shape)}")
    rewards = rewards.detach()
    scores = rewards.sum(dim=-1).double()  # the means need float64, a row of mostly zeros does not
    suspicious = ~scores.isfinite()
    if suspicious.any():
        rows = rewards[suspicious].masked_fill(mask[suspicious] == 0, 0.0)
        scores[suspicious] = rows.sum(dim=-1, dtype=torch.float64)
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
    column = values.to(dtype).unsqueeze(-1)
    result = _empty(mask.shape, dtype, mask.device)
    rows = ROWS_CPU if mask.device.type == "cpu" else max(1, len(values))
    for block, counts, advantage in zip(result.split(rows), mask.split(rows), column.split(rows), strict=True):
        # torch widens bytes several times faster than bools
        block.copy_(counts.to(torch.bool).view(torch.uint8)).mul_(advantage)
    return result


def _empty(shape: torch.Size, dtype: torch.dtype, device: torch.device) -> Tensor:
    """torch.empty; on a CPU in memory that numpy allocates, because numpy asks for huge pages and torch does
    not: the first touch of a gigabyte in 4 KiB pages takes longer than everything else here together."""
    in_numpy = {torch.float32: np.float32, torch.float64: np.float64}.get(dtype)
    if device.type != "cpu" or in_numpy is None:
        return torch.empty(shape, dtype=dtype, device=device)
    return torch.from_numpy(np.empty(shape, dtype=in_numpy))
