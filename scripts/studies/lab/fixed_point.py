"""Fixed points of training with a fixed reference, by the exact expected gradient of each KL."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import pandas as pd
import torch
from torch import Tensor

from rpg.names import DIVERGENCES
from rpg.objectives import LossSpec, token_loss
from scripts.studies.lab.policy import Policy, over_seeds
from scripts.studies.lab.task import Task

OF_RESPONSES = ("RKL of responses", "FKL of responses")  # normalised and unnormalised are one
FORMS = (*(d.upper() for d in DIVERGENCES), "k3", "verl's k3", *OF_RESPONSES)
BETAS = (1e-3, 3e-3, 0.01, 0.03, 0.1, 0.15, 0.2, 0.3)
STEPS, LR = 200, 0.1  # Adam's learning rate decays linearly to 0
PASS_AT = 8


class Measured(NamedTuple):
    """One exact value per seed, (seeds,), of a policy.

    Attributes:
        reward: expected reward.
        gap: maximum of J minus J; J is E[R] - beta KL(pi, uniform) of responses.
        kl_start: KL(pi, uniform) of responses; the initial policy is uniform.
        entropy: of responses, in nats.
        pass_at_8: probability that one of 8 responses is rewarded; mean over prompts.
    """

    reward: Tensor
    gap: Tensor
    kl_start: Tensor
    entropy: Tensor
    pass_at_8: Tensor


def measure(task: Task, policy: Tensor, uniform: Tensor, beta: float) -> Measured:
    """Measure log-probs (seeds, prompts, vocabulary, positions, states)."""
    rewards, kl = task.expected_reward(policy), task.kl(policy, uniform)
    reward = rewards.mean(1)
    pass_at_8 = (1 - (1 - rewards.clamp(max=1)) ** PASS_AT).mean(1)
    return Measured(reward, task.best(beta) - (reward - beta * kl), kl, task.entropy(policy), pass_at_8)


def k3(log_probs: Tensor, reference: Tensor) -> Tensor:
    """Return GRPO's k3 of each token, without verl's clamp."""
    log_ratio = reference - log_probs
    return log_ratio.exp() - log_ratio - 1


def verls_k3(log_probs: Tensor, reference: Tensor) -> Tensor:
    """Return verl's KL loss of each token with kl_loss_type low_var_kl: k3, clamped at 10."""
    from verl.trainer.ppo.core_algos import kl_penalty

    penalty: Any = kl_penalty  # declared for float32 only
    return penalty(logprob=log_probs, ref_logprob=reference, kl_penalty="low_var_kl")


def kl_losses(form: str, log_probs: Tensor, reference: Tensor) -> Tensor:
    """Return each token's KL loss, beta 1, on-policy; both tensors (seeds, prompts, tokens, positions, states)."""
    if form == "k3":
        return k3(log_probs, reference)
    if form == "verl's k3":
        return verls_k3(log_probs, reference)
    spec = LossSpec.parse(f"rpg_rf_{form.lower()}", kl_coef=1.0)
    old = log_probs.detach()
    nothing = torch.zeros_like(old)
    return token_loss(spec, log_prob=log_probs, old_log_prob=old, advantages=nothing, ref_log_prob=reference)[0]


def fixed_point(
    form: str, beta: float, seeds: int, seed: int = 0, task: Task | None = None, steps: int = STEPS
) -> Measured:
    """Train with the exact expected gradient of E[R] and of the on-policy token losses, or of the KL of responses."""
    task = task or Task.make()
    policy = Policy(task, seeds, LR, torch.Generator().manual_seed(seed))
    uniform = policy.log_probs().detach()
    schedule = torch.optim.lr_scheduler.LinearLR(policy.optimizer, 1.0, 0.0, STEPS)
    for _ in range(steps):
        present = policy.log_probs()
        loss = -task.expected_reward(present).mean(1).sum()
        if form in OF_RESPONSES:
            pair = (present, uniform) if form == "RKL of responses" else (uniform, present)
            loss = loss + beta * task.kl(*pair).sum()
        elif beta:
            with torch.no_grad():
                visits = torch.stack(task.occupancy(present)[:-1], 2).unsqueeze(2)
                chance = visits * present.exp() / task.shape[0]
            loss = loss + beta * (chance * kl_losses(form, present, uniform)).sum()
        policy.step(loss)
        schedule.step()
    return measure(task, policy.log_probs().detach(), uniform, beta)


def fixed_point_table(seeds: int, seed: int = 0, betas: Sequence[float] = BETAS) -> pd.DataFrame:
    """Return one line per form and beta; mean and standard error over seeds, which differ in the prompt vectors.

    Form "untrained" is the policy before training, "none" training without a KL.
    """
    rows = [{"label": "untrained", "beta": 0.0, **over_seeds(fixed_point("none", 0.0, seeds, seed, steps=0)._asdict())}]
    for form, beta in [("none", 0.0), *((form, beta) for form in FORMS for beta in betas)]:
        measured = fixed_point(form, beta, seeds, seed)._asdict()
        rows.append({"label": form, "beta": beta, **over_seeds(measured)})
    return pd.DataFrame(rows)
