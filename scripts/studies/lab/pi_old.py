"""The choice of pi_old for rollouts older than the batch; docs/off-policy.md gives the gradients."""

import math
from typing import NamedTuple

from torch import Tensor

from rpg.names import PI_OLD
from rpg.objectives.losses import MAX_LOG_RATIO

LEVELS = ("token", "sequence")


class OldPolicy(NamedTuple):
    """The inputs of a loss.

    Attributes:
        log_prob: log pi_old, the denominator of w.
        weights: factor of each token's loss; None means 1.
    """

    log_prob: Tensor
    weights: Tensor | None


def old_policy(
    choice: str, *, behavior: Tensor, anchor: Tensor, level: str = "token", threshold: float = math.inf
) -> OldPolicy:
    """The pi_old and weights of a choice.

    recomputed: the anchor, without a weight (verl's default). Exact only if the anchor sampled.
    behavior: the policy that sampled (verl's bypass_mode).
    decoupled: the anchor, times anchor / behaviour (verl's rollout_is).

    Args:
        choice: one of PI_OLD.
        behavior, anchor: (..., tokens), log-probs of the sampled tokens under the policy that sampled them, and
            under the policy that the batch's first optimizer step starts from.
        level: of the weight of `decoupled`: "token", or "sequence", the product over the last dimension.
        threshold: upper limit of the weight; verl's default is 2, infinity means none. Log-ratios are clamped at
            +-20 first, as in verl.

    Raises:
        ValueError: an unknown choice or level, a threshold of 0 or less.
    """
    for name, value, known in (("pi_old", choice, PI_OLD), ("level", level, LEVELS)):
        if value not in known:
            raise ValueError(f"{name}={value!r} is not one of {', '.join(known)}")
    if not threshold > 0:
        raise ValueError(f"threshold={threshold!r} must be above 0")
    if choice == "behavior":
        return OldPolicy(behavior, None)
    if choice == "recomputed":
        return OldPolicy(anchor, None)
    log_weight = (anchor - behavior).detach()
    if level == "sequence":
        log_weight = log_weight.sum(-1, keepdim=True).expand_as(anchor)
    return OldPolicy(anchor, log_weight.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp().clamp(max=threshold))
