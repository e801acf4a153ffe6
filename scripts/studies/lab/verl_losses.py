"""verl's own policy losses as functions of tensors, for comparison with ours."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor


def verl_loss(name: str, clip_low: float, clip_high: float, clip_c: float) -> Callable[..., Tensor]:
    """Return a registered loss of verl as a function of tensors (batch, tokens) without a mask.

    The function takes log_prob, old_log_prob, advantages and weights (verl's rollout_is_weights, which multiply each
    token's loss, or None), and returns a scalar: the mean over tokens, or over responses for sequence-level losses.

    Raises:
        ValueError: verl has no such loss.
    """
    from verl.trainer.ppo.core_algos import get_policy_loss_fn
    from verl.workers.config import ActorConfig

    function: Any = get_policy_loss_fn(name)  # verl's type has no parameter names
    config = ActorConfig(
        strategy="fsdp2",
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        use_torch_compile=False,
        clip_ratio_low=clip_low,
        clip_ratio_high=clip_high,
        clip_ratio_c=clip_c,
    )

    def loss(log_prob: Tensor, old_log_prob: Tensor, advantages: Tensor, weights: Tensor | None) -> Tensor:
        value, _ = function(
            old_log_prob=old_log_prob,
            log_prob=log_prob,
            advantages=advantages,
            response_mask=torch.ones_like(log_prob),
            loss_agg_mode="token-mean",
            config=config,
            rollout_is_weights=weights,
        )
        return value

    return loss


def verl_kl_loss(log_prob: Tensor, ref_log_prob: Tensor) -> Tensor:
    """Return verl's KL loss per token with kl_loss_type low_var_kl (GRPO's k3, clamped at 10), without coefficient."""
    from verl.trainer.ppo.core_algos import kl_penalty

    penalty: Any = kl_penalty  # declared for float32 only
    return penalty(logprob=log_prob, ref_logprob=ref_log_prob, kl_penalty="low_var_kl")
