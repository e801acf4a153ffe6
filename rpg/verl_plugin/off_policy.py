"""How far a batch is from the policy that is trained on it: effective sample size of the weights, KL of the sampler.

The same numbers for every policy loss, verl's own too: they are made of log-probs, not of what a loss reports, which
verl averages over micro-batches however many tokens each of them has.
"""

from collections.abc import Callable
from typing import Any

from tensordict import TensorDict
from torch import Tensor

from rpg.objectives.terms import MAX_LOG_RATIO
from rpg.verl_plugin.reference import TokenMean

GIVEN = ("old_log_probs", "rollout_log_probs", "rollout_is_weights")


def token_weights(log_prob: Tensor, old_log_prob: Tensor, rollout_is_weights: Tensor | None) -> Tensor:
    """What a token's advantage is multiplied with: w = pi_theta / pi_old, times verl's weight where there is one.

    All of one shape; log w is clamped as in the losses.
    """
    w = (log_prob - old_log_prob).clamp_(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp_()
    return w if rollout_is_weights is None else w * rollout_is_weights


class MeasuredLoss:
    """verl's actor loss, unchanged, with sums over the tokens of all micro-batches that it is called with.

    A token that is not finite is left out of them.
    """

    def __init__(self, actor_loss: Callable[..., tuple[Tensor, dict[str, Any]]]):
        """actor_loss: what would be called without this one, ppo_loss with its config bound."""
        self.actor_loss = actor_loss
        self._weight, self._square, self._kl = TokenMean(), TokenMean(), TokenMean()

    def __call__(self, model_output: Any, data: TensorDict, dp_group: Any = None) -> tuple[Tensor, dict[str, Any]]:
        """As verl's ppo_loss; rollout_log_probs and rollout_is_weights are used where data has them."""
        result = self.actor_loss(model_output=model_output, data=data, dp_group=dp_group)
        self._measure(model_output["log_probs"].detach(), data)
        return result

    def _measure(self, log_prob: Tensor, data: TensorDict) -> None:
        """log_prob and all of data are nested: the tokens of the responses in a row, no padding between them."""
        from verl.workers.utils.padding import response_from_nested

        mask = data["response_mask"].values() != 0
        of = {name: data[name].values() for name in GIVEN if name in data}
        log_prob = response_from_nested(log_prob, data["response_mask"]).values()
        weights = token_weights(log_prob, of["old_log_probs"], of.get("rollout_is_weights"))
        counted = mask & weights.isfinite()
        self._weight.add(weights, counted)
        self._square.add(weights.square(), counted)
        if "rollout_log_probs" in of:
            log_ratio = of["rollout_log_probs"] - log_prob
            self._kl.add(log_ratio, mask & log_ratio.isfinite())

    def take(self, group: Any = None) -> dict[str, float]:
        """Metrics of what was seen since the last call; all ranks of the data-parallel group must call it.

        Returns:
            off_policy/ess: (sum w)^2 / (n sum w^2) over the n tokens, in (0, 1]; w as token_weights has it.
            off_policy/kl: mean of log mu - log pi_theta in nats a token, mu the policy that sampled: an unbiased
                estimate of KL(mu || pi_theta), at times below 0. Only where the rollout's log-probs are there.
        """
        weight, square = self._weight.take(group), self._square.take(group)
        metrics = {"off_policy/ess": weight**2 / square} if square else {}  # 0 without any token
        return metrics | ({"off_policy/kl": self._kl.take(group)} if self._kl.seen else {})
