"""Differences between the token gradients of the paper's eight RPG rows and DAPO with pi_ref = pi_old."""

import itertools
from collections.abc import Callable
from typing import Any, NamedTuple

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
        rows: relative difference in root mean square over pi_old: any two of the eight rows as trained, with
            dual-clipped reward or RPG-Style Clip.
        dapo: the same for RPG-REINFORCE-URKL as trained and DAPO, verl's `vanilla` with the same clip and no KL.
    """

    kinds: float
    rows: float
    dapo: float


def differences(spread: float) -> Difference:
    """Compare the gradients for random policies and normal advantages; log w has standard deviation `spread`."""
    generator = torch.Generator().manual_seed(0)
    logits, move, advantages = (
        torch.randn(POLICIES, VOCABULARY, generator=generator, dtype=torch.float64) for _ in range(3)
    )
    old = logits.log_softmax(-1)
    present = (old + spread * move).log_softmax(-1)
    unclipped = {
        (kind, d): _slope(_token_loss(f"{kind}{d}", kl_coef=KL_COEF, **scope), present, old, advantages)
        for kind, scope in (("rpg_", {"clip_scope": "none"}), ("rpg_rf_", {}))
        for d in DIVERGENCES
    }
    clip = {"clip_low": 0.2, "clip_high": 0.28, "clip_c": 10.0}
    trained = {
        name: _slope(_token_loss(name, kl_coef=KL_COEF, **clip), present, old, advantages)
        for form in ("rpg_{}", "rpg_rf_{}_clip_ppo")
        for name in map(form.format, DIVERGENCES)
    }
    dapo = _slope(_dapo_loss(**clip), present, old, advantages)
    weight = old.exp()
    pairs = [(unclipped["rpg_", d], unclipped["rpg_rf_", d]) for d in DIVERGENCES]
    return Difference(
        max(((a - b) / b).abs().max().item() for a, b in pairs),
        _largest(list(trained.values()), weight),
        _largest([trained["rpg_rf_urkl_clip_ppo"], dapo], weight),
    )


Loss = Callable[[Tensor, Tensor, Tensor], Tensor]  # log pi_theta, log pi_old, advantages -> losses or their sum


def _token_loss(name: str, **settings: Any) -> Loss:
    """Return one of our losses with these settings."""
    spec = LossSpec.parse(name, **settings)

    def loss(log_prob: Tensor, old_log_prob: Tensor, advantages: Tensor) -> Tensor:
        return token_loss(spec, log_prob=log_prob, old_log_prob=old_log_prob, advantages=advantages)[0]

    return loss


def _dapo_loss(clip_low: float, clip_high: float, clip_c: float) -> Loss:
    """Return the sum over tokens of verl's `vanilla`."""
    from verl.trainer.ppo.core_algos import get_policy_loss_fn
    from verl.workers.config import ActorConfig

    function: Any = get_policy_loss_fn("vanilla")  # verl's type has no parameter names
    config = ActorConfig(
        strategy="fsdp2", rollout_n=1, ppo_micro_batch_size_per_gpu=1, use_torch_compile=False,
        clip_ratio_low=clip_low, clip_ratio_high=clip_high, clip_ratio_c=clip_c,
    )  # fmt: skip

    def loss(log_prob: Tensor, old_log_prob: Tensor, advantages: Tensor) -> Tensor:
        mean, _ = function(
            old_log_prob=old_log_prob, log_prob=log_prob, advantages=advantages,
            response_mask=torch.ones_like(log_prob), loss_agg_mode="token-mean", config=config, rollout_is_weights=None,
        )  # fmt: skip
        return mean * log_prob.numel()

    return loss


def _slope(loss: Loss, present: Tensor, old: Tensor, advantages: Tensor) -> Tensor:
    """Return d loss / d log pi_theta of every token."""
    log_prob = present.clone().requires_grad_()
    (slope,) = torch.autograd.grad(loss(log_prob, old, advantages).sum(), log_prob)
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
