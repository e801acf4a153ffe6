"""Bias of the gradient of whole responses for samples of an older policy, computed exactly by enumeration."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor

from rpg.objectives import LossSpec, token_loss
from rpg.objectives.losses import MAX_LOG_RATIO
from scripts.studies.lab.policy import over_seeds, trained
from scripts.studies.lab.task import Task

AGES = (0, 1, 4, 8, 16, 32)  # optimizer steps between the sampling policy and the current one
TRAINED = 64  # optimizer steps to the current policy: in the middle of training
LR = 0.05


class Row(NamedTuple):
    """A choice of pi_old (docs/off-policy.md), and the weight of `decoupled`: its level and upper limit."""

    choice: str
    loss: str = "rpg_rf_urkl"  # at the start of a batch w is 1, so that a clip acts only under `behavior`
    level: str = "token"
    threshold: float = math.inf


ROWS = {
    "recomputed": Row("recomputed"),
    "behavior, RPG-Style Clip": Row("behavior", loss="rpg_rf_urkl_clip_ppo"),
    "behavior, no clip": Row("behavior"),
    "decoupled, token": Row("decoupled"),
    "decoupled, token, at most 2": Row("decoupled", threshold=2.0),
    "decoupled, sequence": Row("decoupled", level="sequence"),
    "decoupled, sequence, at most 2": Row("decoupled", level="sequence", threshold=2.0),
}


def old_policy(row: Row, behavior: Tensor, anchor: Tensor) -> tuple[Tensor, Tensor]:
    """Return log pi_old, the denominator of w, and the factor of each token's loss.

    recomputed: the anchor, without a weight (verl's default). behavior: the policy that sampled (verl's bypass_mode).
    decoupled: the anchor, times anchor / behaviour (verl's rollout_is), whose log is clamped at +-20 as in verl.

    behavior, anchor: (..., tokens), log-probs of the sampled tokens under the policy that sampled them, and under the
    policy that the batch's first optimizer step starts from.
    """
    if row.choice != "decoupled":
        return (behavior if row.choice == "behavior" else anchor), torch.ones_like(anchor)
    log_weight = (anchor - behavior).detach()
    if row.level == "sequence":
        log_weight = log_weight.sum(-1, keepdim=True).expand_as(anchor)
    return anchor, log_weight.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp().clamp(max=row.threshold)


def bias_table(seeds: int, seed: int = 0, ages: Sequence[int] = AGES) -> pd.DataFrame:
    """Return bias and cosine of every row at every age, beta 0, at a batch's first optimizer step, over seeds."""
    task = Task.make()
    policies, responses = trained(task, seeds, TRAINED, LR, seed), Responses(task)
    table = []
    for label, row in ROWS.items():
        for age in ages:
            pairs = zip(policies[TRAINED - age], policies[TRAINED], strict=True)
            bias, cosine = torch.tensor([responses.gradient(row, *pair) for pair in pairs]).T
            table.append({"label": label, "age": age, **over_seeds({"bias": bias, "cosine": cosine})})
    return pd.DataFrame(table)


class Responses:
    """All responses to all prompts of a task."""

    def __init__(self, task: Task):
        self._task = task
        prompts, vocabulary, positions, states = task.shape
        tokens = torch.cartesian_prod(*[torch.arange(vocabulary)] * positions).view(-1, positions)
        state, places = task.start.unsqueeze(1).expand(prompts, len(tokens)), []
        first = torch.arange(prompts).unsqueeze(1) * vocabulary
        for position in range(positions):
            token = tokens[:, position].expand_as(state)
            places.append(((first + token) * positions + position) * states + state)
            state = task.next_state[position, token, state]
        self.places = torch.stack(places, -1)  # (prompts, responses, positions)
        self.rewards = (state == task.goal.unsqueeze(1)).double()

    def gradient(self, row: Row, sampler: Tensor, present: Tensor) -> tuple[float, float]:
        """Return |expected gradient + grad J| / |grad J|, and the cosine of minus that gradient and grad J.

        sampler, present: (prompts, vocabulary, positions, states), log-probs of the policy that sampled and of the one
        from which the batch's training starts. J is of whole responses.
        """
        sampler, present = sampler.double().log_softmax(1), present.double().log_softmax(1)
        behavior, anchor = sampler.flatten()[self.places], present.flatten()[self.places]
        old, weights = old_policy(row, behavior, anchor)
        chance = behavior.sum(-1).exp()  # (prompts, responses)
        advantages = self.rewards - (chance * self.rewards).sum(1, keepdim=True)
        log_prob = anchor.clone().requires_grad_()
        of_tokens = advantages.unsqueeze(-1).expand_as(log_prob).contiguous()
        spec = LossSpec.parse(row.loss, kl_coef=0.0)
        losses, _ = token_loss(spec, log_prob=log_prob, old_log_prob=old, advantages=of_tokens)
        (slope,) = torch.autograd.grad((losses * weights).sum(), log_prob)
        expected = torch.zeros(present.numel(), dtype=torch.float64)
        expected.index_add_(0, self.places.flatten(), (chance.unsqueeze(-1) * slope).flatten())
        expected = expected.view(present.shape) / len(present)
        mean = expected - present.exp() * expected.sum(1, keepdim=True)  # through the softmax
        exact = self.objective_gradient(present)
        size = exact.norm()
        return ((mean + exact).norm() / size).item(), (-(mean * exact).sum() / (mean.norm() * size)).item()

    def objective_gradient(self, present: Tensor) -> Tensor:
        """Return the gradient of the expected reward by the logits, averaged over prompts, by dynamic programming."""
        logits = present.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(self._task.expected_reward(logits.log_softmax(1).unsqueeze(0)).mean(), logits)
        return gradient
