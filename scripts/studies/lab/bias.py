"""Bias and noise of the gradient of whole responses, computed exactly by enumerating all responses."""

import dataclasses
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch import Tensor

from rpg.names import DIVERGENCES
from rpg.objectives import LossSpec, token_loss
from scripts.studies.lab.pi_old import old_policy
from scripts.studies.lab.policy import over_seeds, trained
from scripts.studies.lab.task import Task

AGES = (0, 1, 4, 8, 16, 32)  # optimizer steps between the sampling policy and the current one
NOISE_BETAS = (1e-4, 0.1, 1.0)
TRAINED = 64  # optimizer steps to the current policy: in the middle of training
LR = 0.05
Choice = Mapping[str, Any]  # choice, level and threshold of old_policy
CHOICES: Mapping[str, Choice] = {
    "recomputed": {"choice": "recomputed"},
    "behavior": {"choice": "behavior"},
    "decoupled, token": {"choice": "decoupled"},
    "decoupled, token, at most 2": {"choice": "decoupled", "threshold": 2.0},
    "decoupled, sequence": {"choice": "decoupled", "level": "sequence"},
    "decoupled, sequence, at most 2": {"choice": "decoupled", "level": "sequence", "threshold": 2.0},
}
# at the start of a batch w is 1, so that a clip acts only under `behavior`
EXACT = LossSpec.parse("rpg_rf_urkl", kl_coef=0.0)
ROWS: dict[str, tuple[LossSpec, Choice]] = {
    "recomputed": (EXACT, CHOICES["recomputed"]),
    "behavior, RPG-Style Clip": (LossSpec.parse("rpg_rf_urkl_clip_ppo", kl_coef=0.0), CHOICES["behavior"]),
    "behavior, no clip": (EXACT, CHOICES["behavior"]),
    **{name: (EXACT, fields) for name, fields in CHOICES.items() if name.startswith("decoupled")},
}
UNCLIPPED = {
    f"{method} {d.upper()}": LossSpec.parse(f"{prefix}_{d}", clip_scope="none")
    for method, prefix in (("RPG-REINFORCE", "rpg_rf"), ("RPG", "rpg"))
    for d in DIVERGENCES
}


class Gradient(NamedTuple):
    """The gradient of the expected loss compared with grad J of whole responses; both by the logits.

    Attributes:
        bias: |expected gradient + grad J| / |grad J|.
        cosine: cosine between minus the expected gradient and grad J; 1 is the correct direction.
        noise: standard deviation of one response's gradient, as a multiple of |grad J|.
    """

    bias: float
    cosine: float
    noise: float


def bias_table(seeds: int, seed: int = 0, ages: Sequence[int] = AGES) -> pd.DataFrame:
    """Return every row at every age, beta 0, at a batch's first optimizer step; mean and standard error over seeds."""
    return _table({(label, 0.0): row for label, row in ROWS.items()}, seeds, seed, ages)


def noise_table(seeds: int, seed: int = 0) -> pd.DataFrame:
    """Return every unclipped loss at every beta, on fresh samples; pi_ref and pi_old are the sampling policy."""
    rows = {
        (label, beta): (dataclasses.replace(spec, kl_coef=beta), CHOICES["behavior"])
        for label, spec in UNCLIPPED.items()
        for beta in NOISE_BETAS
    }
    return _table(rows, seeds, seed, [0]).drop(columns=["bias", "bias_se", "cosine", "cosine_se"])


def _table(
    rows: Mapping[tuple[str, float], tuple[LossSpec, Choice]], seeds: int, seed: int, ages: Sequence[int]
) -> pd.DataFrame:
    task = Task.make()
    policies, responses = trained(task, seeds, TRAINED, LR, seed), Responses(task)
    table = []
    for ((label, beta), (spec, choice)), age in itertools.product(rows.items(), ages):
        samplers, presents = policies[TRAINED - age], policies[TRAINED]
        gradients = [responses.gradient(spec, *pair, choice) for pair in zip(samplers, presents, strict=True)]
        measured = dict(zip(Gradient._fields, torch.tensor(gradients).T, strict=True))
        table.append({"label": label, "beta": beta, "age": age, **over_seeds(measured)})
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

    def gradient(self, spec: LossSpec, sampler: Tensor, present: Tensor, choice: Choice) -> Gradient:
        """Return the Gradient of a loss with pi_ref = pi_old, for samples of `sampler` and a batch from `present` on.

        Args:
            spec: the loss.
            sampler, present: (prompts, vocabulary, positions, states), log-probs.
            choice: arguments of old_policy.
        """
        sampler, present = sampler.double().log_softmax(1), present.double().log_softmax(1)
        behavior, anchor = sampler.flatten()[self.places], present.flatten()[self.places]
        old, weights = old_policy(behavior=behavior, anchor=anchor, **choice)
        chance = behavior.sum(-1).exp()  # (prompts, responses)
        advantages = self.rewards - (chance * self.rewards).sum(1, keepdim=True)
        log_prob = anchor.clone().requires_grad_()
        of_tokens = advantages.unsqueeze(-1).expand_as(log_prob).contiguous()
        losses, _ = token_loss(spec, log_prob=log_prob, old_log_prob=old, advantages=of_tokens)
        (slope,) = torch.autograd.grad((losses if weights is None else losses * weights).sum(), log_prob)
        probs, prompts = present.exp(), len(present)
        expected = torch.zeros(present.numel(), dtype=torch.float64)
        expected.index_add_(0, self.places.flatten(), (chance.unsqueeze(-1) * slope).flatten())
        expected = expected.view(present.shape) / prompts
        mean = expected - probs * expected.sum(1, keepdim=True)  # through the softmax
        score = (1 - 2 * probs + probs.square().sum(1, keepdim=True)).flatten()[self.places]  # |grad log pi|^2
        second_moment = (chance * (slope.square() * score).sum(-1)).sum() / prompts
        exact = self.objective_gradient(present)
        size = exact.norm()
        return Gradient(
            bias=((mean + exact).norm() / size).item(),
            cosine=(-(mean * exact).sum() / (mean.norm() * size)).item(),
            noise=((second_moment - mean.square().sum()).clamp(min=0).sqrt() / size).item(),
        )

    def objective_gradient(self, present: Tensor) -> Tensor:
        """Return the gradient of the expected reward by the logits, averaged over prompts, by dynamic programming."""
        logits = present.clone().requires_grad_()
        (gradient,) = torch.autograd.grad(self._task.expected_reward(logits.log_softmax(1).unsqueeze(0)).mean(), logits)
        return gradient
