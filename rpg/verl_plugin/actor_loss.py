"""The actor's loss of one micro-batch: verl's ppo_loss with three additional steps.

1. Call verl's ppo_loss, which calls the policy loss; pass ref_log_prob to it if pi_ref is a separate model.
2. Return NaN as the loss if an input at an unmasked token is NaN or Inf. verl's FSDP engine then skips the optimizer
   step on all ranks; an exception would end one rank while the others wait for it.
3. Keep the sums from which `take` computes the metrics of a batch. verl would average a loss's metrics over
   micro-batches regardless of their numbers of tokens.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from tensordict import TensorDict
from torch import Tensor

from rpg.logged import MASS, MASS_ERROR
from rpg.objectives.losses import MAX_LOG_RATIO
from rpg.objectives.tokens import Summary, pooled
from rpg.verl_plugin.policy_loss import MICRO_BATCH, MicroBatch, means

INPUTS = ("old_log_probs", "ref_log_prob", "advantages", "rollout_is_weights")  # inputs of the loss besides log_probs
FIELDS = ("response_mask", "rollout_log_probs", *INPUTS)


class ActorLoss:
    """verl's actor loss with the steps above; called as verl's engine calls ppo_loss."""

    def __init__(self, ppo_loss: Callable[..., tuple[Tensor, dict[str, Any]]], has_reference: bool = False):
        """ppo_loss: verl's, with its config bound. has_reference: whether to pass ref_log_prob to the policy loss."""
        self.ppo_loss = ppo_loss
        self.has_reference = has_reference
        self._micro_batches: list[tuple[dict[str, float], Summary[float] | None]] = []

    def __call__(self, model_output: Any, data: TensorDict, dp_group: Any = None) -> tuple[Tensor, dict[str, Any]]:
        """Return loss and metrics of verl's ppo_loss.

        Args:
            model_output: log_probs, nested (batch, prompt and response tokens), shifted by one against the tokens.
            data: response_mask, old_log_probs, advantages; rollout_is_weights, rollout_log_probs, ref_log_prob and
                kl_baseline if present; all nested (batch, response tokens).
        """
        from verl.workers.utils.padding import response_from_nested

        fields: dict[str, Any] = {name: data[name].values() for name in FIELDS if name in data}
        mask, rollout = fields.pop("response_mask") != 0, fields.pop("rollout_log_probs", None)
        log_prob = response_from_nested(model_output["log_probs"].detach(), data["response_mask"]).values()
        finite = torch.stack([tensor.isfinite() for tensor in (log_prob, *fields.values())]).all(dim=0)
        micro_batch = MicroBatch()
        if self.has_reference:  # padded as verl pads the other arguments
            names = [name for name in ("ref_log_prob", "kl_baseline") if name in data]
            padded = data.select("response_mask", *names).to_padded_tensor()
            micro_batch.ref_log_prob, micro_batch.kl_baseline = padded["ref_log_prob"], padded.get("kl_baseline")
        token = MICRO_BATCH.set(micro_batch)
        try:
            loss, metrics = self.ppo_loss(model_output=model_output, data=data, dp_group=dp_group)
        finally:
            MICRO_BATCH.reset(token)
        usable = (finite | ~mask).all() & loss.detach().isfinite()
        loss = loss * torch.where(usable, 1.0, math.nan)

        sums = _sums(log_prob, fields, rollout, mask, counted=mask & finite)
        self._micro_batches.append((sums, micro_batch.summary))
        return loss, metrics

    def take(self, group: Any = None) -> tuple[dict[str, float], float]:
        """Return metrics over all tokens since the last call, independent of micro-batches and ranks, and a KL.

        All ranks of the data-parallel group must call it.

        Returns:
            training/off_policy/ess, the effective sample size (sum w)^2 / (n sum w^2) in (0, 1], where w is
                pi_theta / pi_old times verl's rollout_is_weights; .../kl, the mean of log mu - log pi_theta in nats per
                token, an unbiased estimate of KL(mu || pi_theta) for the policy mu that sampled, and .../mass, the mean
                of pi_theta / mu, one of pi_theta's mass on the tokens that mu can sample, with mass_error, its standard
                error: only with rollout_log_probs; actor/rpg_*, only with a loss of ours: means, and the extremes of
                pi_theta / pi_old.
            The mean of k3(pi_ref / pi_old), in nats per token; 0 without a reference.
        """
        mine, self._micro_batches = self._micro_batches, []
        assert mine, "no micro-batch since the last call"
        of_ranks: list[Any] = [None] * torch.distributed.get_world_size(group)
        torch.distributed.all_gather_object(of_ranks, mine, group=group)
        micro_batches = [micro_batch for of_rank in of_ranks for micro_batch in of_rank]
        total = {name: math.fsum(sums[name] for sums, _ in micro_batches) for name in mine[0][0]}
        metrics = {}
        if total["weight_square"]:
            metrics["training/off_policy/ess"] = total["weight"] ** 2 / (total["tokens"] * total["weight_square"])
        if total["sampled"]:
            metrics["training/off_policy/kl"] = total["sampler_log_ratio"] / total["sampled"]
            metrics[MASS] = mass = total["mass"] / total["sampled"]
            variance = max(0.0, total["mass_square"] / total["sampled"] - mass**2)
            metrics[MASS_ERROR] = math.sqrt(variance / total["sampled"])
        if summaries := [summary for _, summary in micro_batches if summary is not None]:
            whole = pooled(summaries)
            metrics |= means(whole)
            metrics |= {"actor/rpg_ratio_max": whole.ratio_max, "actor/rpg_ratio_min": whole.ratio_min}
        return metrics, total["reference_kl"] / max(1.0, total["tokens"])


def _sums(
    log_prob: Tensor, inputs: dict[str, Tensor], rollout: Tensor | None, mask: Tensor, counted: Tensor
) -> dict[str, float]:
    """Return sums over a micro-batch's tokens; all tensors have shape (response tokens,).

    counted: mask and finite inputs of the loss. Of these tokens: their number, w times rollout_is_weights, its square,
    and k3(pi_ref / pi_old) = rho - 1 - log rho, whose mean over x ~ pi_old is KL(pi_old, pi_ref), without negative
    terms (0 without a reference). Of those with rollout_log_probs ("sampled"): their number, log mu - log pi_theta, and
    pi_theta / mu ("mass") and its square.
    """
    old = inputs["old_log_probs"]
    weights = (log_prob - old).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp() * inputs.get("rollout_is_weights", 1.0)
    weights = weights.double().masked_fill(~counted, 0.0)
    log_ratio = torch.full_like(log_prob, math.nan) if rollout is None else rollout - log_prob
    sampled = mask & log_ratio.isfinite()
    mass = (-log_ratio.double()).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp().masked_fill(~sampled, 0.0)
    kl = torch.zeros_like(weights)
    if "ref_log_prob" in inputs:
        log_rho = (inputs["ref_log_prob"].double() - old.double()).clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO)
        kl = torch.expm1(log_rho) - log_rho
    on_device = {
        "tokens": counted.sum(),
        "weight": weights.sum(),
        "weight_square": weights.dot(weights),
        "sampled": sampled.sum(),
        "sampler_log_ratio": log_ratio.double().masked_fill(~sampled, 0.0).sum(),
        "mass": mass.sum(),
        "mass_square": mass.dot(mass),
        "reference_kl": kl.masked_fill(~counted, 0.0).sum(),
    }
    values = torch.stack([tensor.double() for tensor in on_device.values()]).tolist()  # one transfer from the device
    return dict(zip(on_device, values, strict=True))
