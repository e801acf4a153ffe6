"""The actor's loss of one micro-batch: verl's ppo_loss with three additional steps.

1. Call verl's ppo_loss, which calls the policy loss; pass ref_log_prob to it if pi_ref is a separate model.
2. Return NaN as the loss if an input at an unmasked token is NaN or Inf. verl's engine then skips the optimizer step on
   all ranks; an exception would end one rank while the others wait for it.
3. Add to the sums from which `take` computes the metrics of a batch. verl would average a loss's metrics over
   micro-batches regardless of their numbers of tokens.
"""

import functools
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, NamedTuple

import torch
from tensordict import TensorDict
from torch import Tensor

from rpg.objectives.losses import MAX_LOG_RATIO

INPUTS = ("old_log_probs", "ref_log_prob", "advantages", "rollout_is_weights")  # inputs of the loss besides log_probs
FIELDS = ("response_mask", "rollout_log_probs", *INPUTS)


class Measured(NamedTuple):
    """Metrics over all tokens of a batch, independent of micro-batches and ranks.

    Attributes:
        metrics: off_policy/ess, the effective sample size (sum w)^2 / (n sum w^2) in (0, 1], where w is pi_theta /
            pi_old times verl's rollout_is_weights; off_policy/kl, the mean of log mu - log pi_theta in nats per token,
            an unbiased estimate of KL(mu || pi_theta) for the policy mu that sampled, only with rollout_log_probs.
        reference_kl: the mean of token_kl, in nats; 0 without a reference.
    """

    metrics: dict[str, float]
    reference_kl: float


class ActorLoss:
    """verl's actor loss with the steps above; called as verl's engine calls ppo_loss."""

    def __init__(self, ppo_loss: Callable[..., tuple[Tensor, dict[str, Any]]], has_reference: bool = False):
        """ppo_loss: verl's, with its config bound. has_reference: whether to pass ref_log_prob to the policy loss."""
        self.ppo_loss = ppo_loss
        self.has_reference = has_reference
        self._sums: Tensor | None = None

    def __call__(self, model_output: Any, data: TensorDict, dp_group: Any = None) -> tuple[Tensor, dict[str, Any]]:
        """Return loss and metrics of verl's ppo_loss.

        Args:
            model_output: log_probs, nested (batch, prompt and response tokens), shifted by one against the tokens.
            data: response_mask, old_log_probs, advantages; rollout_is_weights, rollout_log_probs and ref_log_prob
                if present; all nested (batch, response tokens).
        """
        from verl.workers.utils.padding import response_from_nested

        fields: dict[str, Any] = {name: data[name].values() for name in FIELDS if name in data}
        mask, rollout = fields.pop("response_mask") != 0, fields.pop("rollout_log_probs", None)
        log_prob = response_from_nested(model_output["log_probs"].detach(), data["response_mask"]).values()
        finite = torch.stack([tensor.isfinite() for tensor in (log_prob, *fields.values())]).all(dim=0)
        given = _policy_loss_given(data) if self.has_reference else nullcontext()
        with given:
            loss, metrics = self.ppo_loss(model_output=model_output, data=data, dp_group=dp_group)
        usable = (finite | ~mask).all() & loss.detach().isfinite()
        loss = loss * torch.where(usable, 1.0, math.nan)

        sums = _sums(log_prob, fields, rollout, mask, counted=mask & finite)
        self._sums = sums if self._sums is None else self._sums + sums
        return loss, metrics

    def take(self, group: Any = None) -> Measured:
        """Return the metrics since the last call; all ranks of the data-parallel group must call it."""
        total, self._sums = self._sums, None
        assert total is not None, "no micro-batch since the last call"
        torch.distributed.all_reduce(total, group=group)
        tokens, weight, square, of_sampler, sampler_kl, of_reference, reference_kl = total.tolist()
        metrics = {}
        if square:
            metrics["off_policy/ess"] = weight**2 / (tokens * square)
        if of_sampler:
            metrics["off_policy/kl"] = sampler_kl / of_sampler
        return Measured(metrics, reference_kl / max(1.0, of_reference))


def token_kl(old_log_prob: Tensor, ref_log_prob: Tensor) -> Tensor:
    """Return k3(pi_ref / pi_old) = rho - 1 - log rho of every token; any shape, computed in float64.

    The paper's section 2: its mean over x ~ pi_old is the KL of pi_old from pi_ref, without a ratio, because
    pi_old sampled the tokens; never negative. log rho is clamped as in the losses.
    """
    log_rho = (ref_log_prob.double() - old_log_prob.double()).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
    return torch.expm1(log_rho) - log_rho


def _sums(log_prob: Tensor, inputs: dict[str, Tensor], rollout: Tensor | None, mask: Tensor, counted: Tensor) -> Tensor:
    """Return (7,) float64: tokens, sum w, sum w^2; tokens and sum of log mu - log pi_theta; tokens, sum of token_kl.

    All tensors have shape (response tokens,). Counts tokens with nonzero mask and finite inputs of the loss.
    """
    old, zero = inputs["old_log_probs"], torch.zeros((), device=log_prob.device)
    weights = (log_prob - old).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp() * inputs.get("rollout_is_weights", 1.0)
    weights = weights.masked_fill(~counted, 0.0)
    sums = [counted.sum(), weights.sum(), weights.dot(weights), zero, zero, zero, zero]
    if rollout is not None:
        log_ratio = rollout - log_prob
        sampled = mask & log_ratio.isfinite()
        sums[3:5] = [sampled.sum(), log_ratio.masked_fill(~sampled, 0.0).sum()]
    if "ref_log_prob" in inputs:
        kl = token_kl(old, inputs["ref_log_prob"])
        sums[5:7] = [counted.sum(), kl.masked_fill(~counted, 0.0).sum()]
    return torch.stack([each.double() for each in sums])


@contextmanager
def _policy_loss_given(data: TensorDict) -> Iterator[None]:
    """Pass data's ref_log_prob to the policy loss that verl's ppo_loss looks up.

    ppo_loss has no argument for it; the alternative is a copy of ppo_loss.
    """
    from verl.workers.utils import losses

    ref_log_prob = data.select("response_mask", "ref_log_prob").to_padded_tensor()["ref_log_prob"]  # padded as by verl
    names: dict[str, Any] = losses.__dict__
    look_up = names["get_policy_loss_fn"]
    names["get_policy_loss_fn"] = lambda name: functools.partial(look_up(name), ref_log_prob=ref_log_prob)
    try:
        yield
    finally:
        names["get_policy_loss_fn"] = look_up
