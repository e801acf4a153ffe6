"""How far a batch is from the policy that is trained on it: effective sample size of the weights, KL of the sampler.

The same numbers for every policy loss, verl's own too: they are made of log-probs, not of what a loss reports, which
verl averages over micro-batches however many tokens each of them has.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor

from rpg.objectives.losses import MAX_LOG_RATIO

GIVEN = ("old_log_probs", "rollout_log_probs", "rollout_is_weights")


def token_weights(log_prob: Tensor, old_log_prob: Tensor, rollout_is_weights: Tensor | None) -> Tensor:
    """What a token's advantage is multiplied with: w = pi_theta / pi_old, times verl's weight where there is one.

    All of one shape; log w is clamped as in the losses.
    """
    w = (log_prob - old_log_prob).clamp_(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp_()
    return w if rollout_is_weights is None else w * rollout_is_weights


class MeasuredLoss:
    """verl's actor loss, unchanged, with sums over the tokens of all micro-batches that it is called with.

    A token whose weight or log-prob is not finite is left out of them.
    """

    def __init__(self, actor_loss: Callable[..., tuple[Tensor, dict[str, Any]]]):
        """actor_loss: what would be called without this one, ppo_loss with its config bound."""
        self.actor_loss = actor_loss
        self._sums: Tensor | None = None  # tokens, w, w^2; tokens, log mu - log pi_theta: as far as data has them

    def __call__(self, model_output: Any, data: TensorDict, dp_group: Any = None) -> tuple[Tensor, dict[str, Any]]:
        """As verl's ppo_loss; rollout_log_probs and rollout_is_weights are used where data has them."""
        result = self.actor_loss(model_output=model_output, data=data, dp_group=dp_group)
        sums = self._measure(model_output["log_probs"].detach(), data)
        self._sums = sums if self._sums is None else self._sums + sums
        return result

    def _measure(self, log_prob: Tensor, data: TensorDict) -> Tensor:
        """log_prob and all of data are nested: the tokens of the responses in a row, no padding between them."""
        from verl.workers.utils.padding import response_from_nested

        mask = data["response_mask"].values() != 0
        of: dict[str, Any] = {name: data[name].values() for name in GIVEN if name in data}
        log_prob = response_from_nested(log_prob, data["response_mask"]).values()
        weights = token_weights(log_prob, of["old_log_probs"], of.get("rollout_is_weights"))
        counted = mask & (weights < math.inf)  # which NaN is not either
        weights = weights.masked_fill(~counted, 0.0)
        sums = [counted.sum(), weights.sum(), weights.dot(weights)]
        if "rollout_log_probs" in of:
            log_ratio = of["rollout_log_probs"] - log_prob
            counted = mask & (log_ratio.abs() < math.inf)
            sums += [counted.sum(), log_ratio.masked_fill(~counted, 0.0).sum()]
        return torch.stack([each.double() for each in sums])

    def take(self, group: Any = None) -> dict[str, float]:
        """Metrics of what was seen since the last call; all ranks of the data-parallel group must call it.

        Returns:
            off_policy/ess: (sum w)^2 / (n sum w^2) over the n tokens, in (0, 1]; w as token_weights has it.
            off_policy/kl: mean of log mu - log pi_theta in nats a token, mu the policy that sampled: an unbiased
                estimate of KL(mu || pi_theta), at times below 0. Only where the rollout's log-probs are there.
            Neither where no token counts.
        """
        if self._sums is None:
            raise RuntimeError("no micro-batch has been seen since the last metrics")
        sums, self._sums = self._sums, None
        torch.distributed.all_reduce(sums, group=group)
        tokens, weight, square, *of_kl = sums.tolist()
        metrics = {"off_policy/ess": weight**2 / (tokens * square)} if square else {}
        if of_kl and of_kl[0]:
            metrics["off_policy/kl"] = of_kl[1] / of_kl[0]
        return metrics
