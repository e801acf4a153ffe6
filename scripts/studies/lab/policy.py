"""The laboratory's policies: many seeds at once, trained on-policy with samples."""

import math
from collections.abc import Mapping

import torch
from torch import Tensor

from rpg.objectives import LossSpec, group_mean_advantages, token_loss
from scripts.studies.lab.task import Task

RANK = 4  # rank of the logits over prompts, below the number of prompts, so that prompts share parameters
GROUP = 8  # responses per prompt
GROUPS = 4  # prompts per mini-batch


class Policy:
    """logits = prompt vectors x table, a two-layer linear network per seed; initially uniform.

    The prompt vectors have rank RANK, so that prompts share parameters.
    """

    def __init__(self, task: Task, seeds: int, lr: float, generator: torch.Generator):
        prompts, *rest = self._shape = task.shape
        self.prompts = (torch.randn(seeds, prompts, RANK, generator=generator) / RANK**0.5).requires_grad_()
        self.table = torch.zeros(seeds, RANK, math.prod(rest), requires_grad=True)
        self.optimizer = torch.optim.Adam([self.prompts, self.table], lr=lr)

    def log_probs(self) -> Tensor:
        """Return log-probs, (seeds, prompts, vocabulary, positions, states)."""
        return (self.prompts @ self.table).view(-1, *self._shape).log_softmax(2)

    def step(self, loss: Tensor) -> None:
        """Run one optimizer step; Adam is element-wise, so that seeds do not interact."""
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()


def sample(task: Task, log_probs: Tensor, batches: int, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Sample GROUP responses to GROUPS prompts for each of `batches` mini-batches; returns as Task.sample."""
    drawn = torch.rand(len(log_probs), batches, task.shape[0], generator=generator).argsort(-1)[..., :GROUPS]
    return task.sample(log_probs, drawn.repeat_interleave(GROUP, -1).flatten(1), generator)


def at(log_probs: Tensor, places: Tensor) -> Tensor:
    """Return the log-probs of tokens, whose indices are Task.sample's."""
    return log_probs.flatten(1).gather(1, places.flatten(1)).view(places.shape)


def trained(task: Task, seeds: int, steps: int, lr: float, seed: int) -> list[Tensor]:
    """Return the policies after 0, 1, ..., `steps` optimizer steps of RPG-REINFORCE-URKL, beta 0, on fresh samples."""
    spec = LossSpec.parse("rpg_rf_urkl", kl_coef=0.0)
    generator = torch.Generator().manual_seed(seed)
    policy, policies = Policy(task, seeds, lr, generator), []
    for _ in range(steps):
        present = policy.log_probs()
        policies.append(present.detach())
        places, rewards = sample(task, policies[-1], 1, generator)
        log_prob = at(present, places)
        one_token = rewards.reshape(-1, 1)
        groups = torch.arange(len(one_token) // GROUP).repeat_interleave(GROUP)
        advantages = group_mean_advantages(one_token, torch.ones_like(one_token), groups).view(*rewards.shape, 1)
        losses, _ = token_loss(
            spec,
            log_prob=log_prob,
            old_log_prob=log_prob.detach(),
            advantages=advantages.expand(places.shape).contiguous(),
        )
        policy.step(losses.sum() / losses[0].numel())
    return [*policies, policy.log_probs().detach()]


def over_seeds(measured: Mapping[str, Tensor]) -> dict[str, float]:
    """Return `name`, the mean of each (seeds,) tensor, and `name`_se, its standard error (NaN for a single seed).

    Raises:
        FloatingPointError: a measurement is NaN or Inf.
    """
    row: dict[str, float] = {}
    for name, per_seed in measured.items():
        values = per_seed.double()
        if not values.isfinite().all():
            raise FloatingPointError(f"{name}: NaN or infinite")
        row[name] = values.mean().item()
        row[f"{name}_se"] = (values.std() / math.sqrt(len(values))).item() if len(values) > 1 else math.nan
    return row
