"""The RPG losses as verl policy losses: verl's signature -> token_loss -> agg_loss.

verl passes no reference log-probs to a policy loss, and averages a policy loss's metrics over micro-batches, regardless
of their numbers of tokens. With our actor loss the context variable MICRO_BATCH carries the reference log-probs in and
the statistics out. Without it (plain `python -m verl.trainer.main_ppo`) pi_ref = pi_old, the paper's default, and verl
averages the metrics.
"""

import functools
import sys
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from rpg.objectives import LOSS_NAMES, LossSpec, token_loss_summary
from rpg.objectives.tokens import Summary, compiled, floats


@dataclass
class MicroBatch:
    """What our actor loss and the policy loss exchange about a micro-batch, around verl's ppo_loss.

    Attributes:
        ref_log_prob: (batch, tokens), log pi_ref, from the actor loss; None means pi_ref = pi_old.
        kl_baseline: (batch, tokens), baseline of the later KL terms (kl_scope response); None means 0.
        summary: from the policy loss; stays None if that is one of verl's.
    """

    ref_log_prob: Tensor | None = None
    kl_baseline: Tensor | None = None
    summary: Summary[float] | None = None


MICRO_BATCH: ContextVar[MicroBatch | None] = ContextVar("MICRO_BATCH", default=None)


def policy_loss(
    name: str,
    old_log_prob: Tensor,
    log_prob: Tensor,
    advantages: Tensor,
    response_mask: Tensor,
    loss_agg_mode: str = "token-mean",
    config: Any = None,
    rollout_is_weights: Tensor | None = None,
) -> tuple[Tensor, dict[str, float]]:
    """Compute loss `name` with verl's signature: per-token loss, aggregated over the global batch, and metrics.

    Args:
        name: one of rpg.objectives.LOSS_NAMES.
        old_log_prob, log_prob, advantages, response_mask: (batch, tokens).
        loss_agg_mode: verl's aggregation mode.
        config: verl's actor config (dataclass or DictConfig).
        rollout_is_weights: (batch, tokens), verl's rollout correction; multiplies the per-token loss.

    Returns:
        The scalar from verl's agg_loss, normalised by config.global_batch_info, so that gradients do not
        depend on the number of ranks or micro-batches; never a leaf. It is NaN if an unmasked token has NaN
        or Inf, and FSDP skips the step. Metrics: floats, always the same keys; verl's, and in plain main_ppo
        those of ours that are means.
    """
    from verl.trainer.ppo.core_algos import agg_loss

    micro_batch = MICRO_BATCH.get() or MicroBatch()
    spec = spec_from_actor_config(name, config)
    kl_loss_coef = config.get("kl_loss_coef", 0.0) if config.get("use_kl_loss", False) else 0.0
    tell(name, spec, micro_batch.ref_log_prob is not None, kl_loss_coef)
    compute = compiled(log_prob.device) if config.get("use_torch_compile") else token_loss_summary
    losses, on_device = compute(
        spec,
        log_prob=log_prob,
        old_log_prob=old_log_prob,
        advantages=advantages,
        ref_log_prob=micro_batch.ref_log_prob,
        kl_baseline=micro_batch.kl_baseline,
        mask=response_mask,
    )
    if rollout_is_weights is not None:
        losses = losses * rollout_is_weights.masked_fill(response_mask == 0, 0.0)
    micro_batch.summary = summary = floats(on_device)
    metrics = verl_metrics(summary) | ({} if MICRO_BATCH.get() else means(summary))
    if not summary.tokens + summary.not_finite:  # without unmasked tokens: 0 with gradient 0, not 0 / 0
        return losses.sum(), metrics
    info = config.get("global_batch_info") or {}
    return agg_loss(loss_mat=losses, loss_mask=response_mask, loss_agg_mode=loss_agg_mode, **info), metrics


@functools.cache  # once a process
def tell(name: str, spec: LossSpec, own_reference: bool, kl_loss_coef: float) -> None:
    """Print, on rank 0, the loss and the numbers that it uses, and a warning if verl adds a KL to the loss's own.

    own_reference: whether pi_ref is a model of its own. kl_loss_coef: of verl's `use_kl_loss`, 0 without it.
    """
    if torch.distributed.is_initialized() and torch.distributed.get_rank() != 0:
        return
    line = (
        f"rpg: loss {name}, beta {spec.kl_coef:g}, clip [{1 - spec.clip_low:g}, {1 + spec.clip_high:g}], "
        f"c {spec.clip_c:g}, pi_ref {'other than' if own_reference else '='} pi_old"
    )
    if kl_loss_coef:
        line += (
            f"\nWARNING: rpg: actor_rollout_ref.actor.use_kl_loss=true adds verl's KL (kl_loss_coef={kl_loss_coef:g}) "
            f"to the one that {name} contains; set use_kl_loss=false"
        )
    print(line, file=sys.stderr, flush=True)


def spec_from_actor_config(name: str, config: Any) -> LossSpec:
    """Return the LossSpec of loss `name` with the numbers of verl's actor config.

    clip_ratio_low, clip_ratio_high and clip_ratio_c are verl's own keys; the others come from `policy_loss` if that is
    an RPGPolicyLossConfig. verl's plain PolicyLossConfig lacks these keys: then the paper's values are used.
    """
    from rpg.verl_plugin.config import RPGPolicyLossConfig

    fallback = config.clip_ratio
    low = fallback if config.clip_ratio_low is None else config.clip_ratio_low
    high = fallback if config.clip_ratio_high is None else config.clip_ratio_high
    configured = {key: config.policy_loss.get(key) for key in RPGPolicyLossConfig.__annotations__}
    settings = {key: value for key, value in configured.items() if value is not None}
    return LossSpec.parse(name, clip_low=low, clip_high=high, clip_c=config.get("clip_ratio_c", 3.0), **settings)


def verl_metrics(summary: Summary[float]) -> dict[str, float]:
    """Return verl's metrics of a micro-batch with verl's meaning: means over its tokens, 0 without tokens.

    For ppo_kl verl also limits log w to 20.
    """
    count = max(1.0, summary.tokens)
    return {
        "actor/ppo_kl": -summary.log_ratio_sum / count,
        "actor/pg_clipfrac": (summary.high + summary.low) / count,
        "actor/pg_clipfrac_lower": summary.c / count,
    }


def means(summary: Summary[float]) -> dict[str, float]:
    """Return our metrics that are means over tokens; without tokens 0, the ratio 1."""
    count = max(1.0, summary.tokens)
    return {
        "actor/rpg_kl": summary.kl_sum / count,
        "actor/rpg_kl_k1": summary.k1_sum / count,
        "actor/rpg_clipfrac_high": summary.high / count,
        "actor/rpg_clipfrac_low": summary.low / count,
        "actor/rpg_clipfrac_c": summary.c / count,
        "actor/rpg_ratio_mean": summary.ratio_sum / count if summary.tokens else 1.0,
        "actor/rpg_rho_held": summary.rho_held / count,
    }


POLICY_LOSSES: dict[str, Callable[..., tuple[Tensor, dict[str, float]]]] = {
    name: functools.partial(policy_loss, name) for name in LOSS_NAMES
}
