"""What becomes of the per-token statistics: kept as tensors, or reduced to a few numbers on the way."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from rpg.objectives.terms import Included, TokenStats


class PerToken:
    """Keeps the statistics of every token, in tensors of the loss's shape."""

    def __init__(self, log_prob: Tensor, dtype: torch.dtype):
        self._shape = log_prob.shape
        types = (dtype, dtype, dtype, torch.bool, torch.bool, torch.bool)  # in TokenStats' order
        self._flat = [torch.empty(log_prob.numel(), dtype=kind, device=log_prob.device) for kind in types]

    def add(self, part: slice, stats: TokenStats, included: Included | None) -> None:
        for whole, piece in zip(self._flat, stats, strict=True):
            is_flag = whole.dtype == torch.bool
            whole[part] = piece * included.weight if is_flag and included is not None else piece

    def result(self) -> TokenStats:
        return TokenStats(*(tensor.view(self._shape) for tensor in self._flat))


@dataclass(frozen=True)
class Summary:
    """Numbers over the tokens that count: `tokens` of them; sums, counts, and the extremes of w.

    With no token at all, sums and counts are 0 and the extremes 1. `finite` is False if NaN or infinity
    was met in any log-ratio or KL estimate of a token that counts.
    """

    tokens: int
    ratio_sum: float
    log_ratio_sum: float
    kl_sum: float
    high: int
    low: int
    c: int
    ratio_max: float
    ratio_min: float
    finite: bool


class Summed:
    """Reduces the statistics piece by piece, so that no per-token tensor of them is ever stored."""

    def __init__(self):
        self._rows: list[Tensor] = []

    def add(self, part: slice, stats: TokenStats, included: Included | None) -> None:
        ratio = stats.ratio
        weight = torch.ones_like(ratio) if included is None else included.weight
        away = (1.0 - weight).mul_(torch.finfo(ratio.dtype).max)  # keeps other tokens' ratio out of extremes
        row = (
            weight.sum(),
            ratio.dot(weight),
            stats.log_ratio.sum(),  # 0 where tokens do not count, like the KL estimate
            stats.kl.sum(),
            stats.clipped_high.dot(weight),
            stats.clipped_low.dot(weight),
            stats.clipped_c.dot(weight),
            (ratio - away).amax(),
            (ratio + away).amin(),
        )
        self._rows.append(torch.stack(row))

    def result(self) -> Summary:
        rows = torch.stack(self._rows).cpu().double() if self._rows else torch.zeros(0, 9)
        total = rows.sum(dim=0).tolist()
        tokens = int(total[0])
        return Summary(
            tokens,
            *total[1:4],
            *(int(count) for count in total[4:7]),
            ratio_max=float(rows[:, 7].max()) if tokens else 1.0,
            ratio_min=float(rows[:, 8].min()) if tokens else 1.0,
            finite=all(map(math.isfinite, total[2:4])),
        )
