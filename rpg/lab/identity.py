"""Differences between the token gradients of the paper's eight RPG rows with pi_ref = pi_old."""

import itertools
from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor

from rpg.names import DIVERGENCES
from rpg.objectives import LossSpec, token_loss

SPREADS = (0.01, 0.03, 0.1, 0.15, 0.3, 1.0)  # standard deviations of log w before it is normalised; runs: 0.15
POLICIES, VOCABULARY = 512, 16
KL_COEF = 1e-4


class Difference(NamedTuple):
    """The largest difference of two gradients at one spread of log w.

    Attributes:
        kinds: largest |a - b| / |b| over samples: a differentiable, b REINFORCE, same divergence, unclipped.
        divergences: relative difference in root mean square over pi_old: any two divergences, unclipped.
        rows: the same for any two of the eight rows as trained: dual-clipped reward, RPG-Style Clip.
    """

    kinds: float
    divergences: float
    rows: float


def differences(spread: float, kl_coef: float = KL_COEF, seed: int = 0) -> Difference:
    """Compare the gradients for random policies and normal advantages; log w has standard deviation `spread`."""
    generator = torch.Generator().manual_seed(seed)
    logits, move, advantages = (
        torch.randn(POLICIES, VOCABULARY, generator=generator, dtype=torch.float64) for _ in range(3)
    )
    old = logits.log_softmax(-1)
    present = (old + spread * move).log_softmax(-1)
    unclipped = {
        (kind, d): _slope(LossSpec.parse(f"{kind}{d}", kl_coef=kl_coef, **scope), present, old, advantages)
        for kind, scope in (("rpg_", {"clip_scope": "none"}), ("rpg_rf_", {}))
        for d in DIVERGENCES
    }
    clip = {"clip_low": 0.2, "clip_high": 0.28, "clip_c": 10.0}
    trained = [
        _slope(LossSpec.parse(name.format(d), kl_coef=kl_coef, **clip), present, old, advantages)
        for name in ("rpg_{}", "rpg_rf_{}_clip_ppo")
        for d in DIVERGENCES
    ]
    weight = old.exp()
    pairs = [(unclipped["rpg_", d], unclipped["rpg_rf_", d]) for d in DIVERGENCES]
    return Difference(
        max(((a - b) / b).abs().max().item() for a, b in pairs),
        _largest([reinforce for _, reinforce in pairs], weight),
        _largest(trained, weight),
    )


def _slope(spec: LossSpec, present: Tensor, old: Tensor, advantages: Tensor) -> Tensor:
    """Return d loss / d log pi_theta of every token."""
    log_prob = present.clone().requires_grad_()
    loss, _ = token_loss(spec, log_prob=log_prob, old_log_prob=old, advantages=advantages)
    (slope,) = torch.autograd.grad(loss.sum(), log_prob)
    return slope


def _largest(slopes: list[Tensor], weight: Tensor) -> float:
    """Return the largest relative difference of any two, in root mean square."""
    return max(
        ((weight * (a - b).square()).sum() / (weight * b.square()).sum()).sqrt().item()
        for a, b in itertools.permutations(slopes, 2)
    )


def identity_table() -> pd.DataFrame:
    """Return one line per spread of log w."""
    return pd.DataFrame([{"spread": spread, **differences(spread)._asdict()} for spread in SPREADS])
