"""The RPG losses as verl policy losses: verl's signature -> token_loss -> agg_loss.

verl passes no reference log-probs to a policy loss, so that pi_ref = pi_old, the paper's default. For another reference
`policy_loss` has one more argument, ref_log_prob, which only our actor loss passes.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from rpg.objectives import LOSS_NAMES, LossSpec, token_loss_summary
from rpg.objectives.tokens import compiled


def policy_loss(
    name: str,
    old_log_prob: Tensor,
    log_prob: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    loss_agg_mode: str = "token-mean",
    config: Any = None,
    rollout_is_weights: Tensor | None = None,
    ref_log_prob: Tensor | None = None,
) -> tuple[Tensor, dict[str, float]]:
    """Compute loss `name` with verl's signature: per-token loss, aggregated over the global batch, and metrics.

    Args:
        name: one of rpg.objectives.LOSS_NAMES.
        old_log_prob, log_prob, advantages, response_mask: (batch, tokens).
        loss_agg_mode: verl's aggregation mode.
        config: verl's actor config (dataclass or DictConfig).
        rollout_is_weights: (batch, tokens), verl's rollout correction; multiplies the per-token loss.
        ref_log_prob: (batch, tokens), log pi_ref; None means pi_ref = pi_old.

    Returns:
        The scalar from verl's agg_loss, normalised by config.global_batch_info, so that gradients do not
        depend on the number of ranks or micro-batches; never a leaf. NaN if an unmasked token has NaN or
        Inf. Metrics: floats, always the same keys.
    """
    from verl.trainer.ppo.core_algos import agg_loss

    compute = compiled(log_prob.device) if config.get("use_torch_compile") else token_loss_summary
    losses, summary = compute(
        spec_from_actor_config(name, config),
        log_prob=log_prob,
        old_log_prob=old_log_prob,
        advantages=advantages,
        ref_log_prob=ref_log_prob,
        mask=response_mask,
    )
    if rollout_is_weights is not None:
        losses = losses * rollout_is_weights.masked_fill(response_mask == 0, 0.0)
    info = config.get("global_batch_info") or {}
    loss = agg_loss(loss_mat=losses, loss_mask=response_mask, loss_agg_mode=loss_agg_mode, **info)
    numbers = torch.stack([loss.detach(), *summary]).tolist()  # one transfer from the device
    if not numbers[1]:  # without unmasked tokens: 0 with gradient 0, not 0 / 0
        return losses.sum(), metrics(numbers[1:])
    if not all(map(math.isfinite, numbers)):  # log w is clamped, so that an infinite one may not show in the loss
        loss = loss * math.nan  # verl's engine then skips the optimizer step, on all ranks
    return loss, metrics(numbers[1:])


def spec_from_actor_config(name: str, config: Any) -> LossSpec:
    """Return the LossSpec of loss `name` with the numbers of verl's actor config.

    clip_ratio_low, clip_ratio_high and clip_ratio_c are verl's own keys; kl_coef, clip_scope, clip_branch
    and z_old come from `policy_loss` if that is an RPGPolicyLossConfig. verl's plain PolicyLossConfig
    lacks these keys: then the paper's values are used.
    """
    fallback = config.clip_ratio
    low = fallback if config.clip_ratio_low is None else config.clip_ratio_low
    high = fallback if config.clip_ratio_high is None else config.clip_ratio_high
    own = {key: config.policy_loss.get(key) for key in ("kl_coef", "clip_scope", "clip_branch", "z_old")}
    settings = {key: value for key, value in own.items() if value is not None}
    return LossSpec.parse(name, clip_low=low, clip_high=high, clip_c=config.get("clip_ratio_c", 3.0), **settings)


def metrics(summary: Sequence[float]) -> dict[str, float]:
    """Return means over unmasked tokens and the extremes of w; 0 (ratios: 1) without unmasked tokens.

    Names: actor/rpg_kl, actor/rpg_clipfrac_{high,low,c}, actor/rpg_ratio_{max,min,mean}, and verl's
    actor/ppo_kl, actor/pg_clipfrac, actor/pg_clipfrac_lower with verl's meaning, for existing dashboards.
    verl 0.9.1 averages every policy-loss metric over micro-batches and ranks, the extremes too.

    summary: the numbers of rpg.objectives.tokens.Summary, in its order.
    """
    tokens, ratio_sum, log_ratio_sum, kl_sum, high, low, c, ratio_max, ratio_min = summary
    count = max(1.0, tokens)
    return {
        "actor/rpg_kl": kl_sum / count,
        "actor/rpg_clipfrac_high": high / count,
        "actor/rpg_clipfrac_low": low / count,
        "actor/rpg_clipfrac_c": c / count,
        "actor/rpg_ratio_max": ratio_max,
        "actor/rpg_ratio_min": ratio_min,
        "actor/rpg_ratio_mean": ratio_sum / count if tokens else 1.0,
        "actor/ppo_kl": -log_ratio_sum / count,
        "actor/pg_clipfrac": (high + low) / count,
        "actor/pg_clipfrac_lower": c / count,
    }


POLICY_LOSSES: dict[str, Callable[..., tuple[Tensor, dict[str, float]]]] = {
    name: functools.partial(policy_loss, name) for name in LOSS_NAMES
}
