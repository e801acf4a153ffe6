"""Fixed points of training with a fixed reference, by the exact expected gradient of each KL."""

from collections.abc import Sequence
from typing import Any

import pandas as pd
import torch
from torch import Tensor

from rpg.names import DIVERGENCES
from rpg.objectives import LossSpec, token_loss
from scripts.studies.lab.policy import Policy, over_seeds
from scripts.studies.lab.task import Task

OF_RESPONSES = "RKL of responses"
FORMS = (*(d.upper() for d in DIVERGENCES), "verl's k3", OF_RESPONSES)
BETAS = (0.1, 0.3)
STEPS, LR = 200, 0.1  # Adam's learning rate decays linearly to 0


def verls_k3(log_probs: Tensor, reference: Tensor) -> Tensor:
    """Return verl's KL loss of each token with kl_loss_type low_var_kl: k3, clamped at 10."""
    from verl.trainer.ppo.core_algos import kl_penalty

    penalty: Any = kl_penalty  # declared for float32 only
    return penalty(logprob=log_probs, ref_logprob=reference, kl_penalty="low_var_kl")


def kl_losses(form: str, log_probs: Tensor, reference: Tensor) -> Tensor:
    """Return each token's KL loss, beta 1, on-policy; both tensors (seeds, prompts, tokens, positions, states)."""
    if form == "verl's k3":
        return verls_k3(log_probs, reference)
    spec = LossSpec.parse(f"rpg_rf_{form.lower()}", kl_coef=1.0)
    old = log_probs.detach()
    nothing = torch.zeros_like(old)
    return token_loss(spec, log_prob=log_probs, old_log_prob=old, advantages=nothing, ref_log_prob=reference)[0]


def fixed_point(form: str, beta: float, seeds: int, seed: int = 0, task: Task | None = None) -> dict[str, Tensor]:
    """Train with the exact expected gradient of E[R] and of the on-policy token losses, or of the KL of responses.

    Returns expected reward, `kl_start` to the uniform initial policy and `gap`, maximum of J less J, (seeds,) each;
    J = E[R] - beta KL of responses.
    """
    task = task or Task.make()
    policy = Policy(task, seeds, LR, torch.Generator().manual_seed(seed))
    uniform = policy.log_probs().detach()
    schedule = torch.optim.lr_scheduler.LinearLR(policy.optimizer, 1.0, 0.0, STEPS)
    for _ in range(STEPS):
        present = policy.log_probs()
        loss = -task.expected_reward(present).mean(1).sum()
        if form == OF_RESPONSES:
            loss = loss + beta * task.kl(present, uniform).sum()
        else:
            with torch.no_grad():
                visits = torch.stack(task.occupancy(present)[:-1], 2).unsqueeze(2)
                chance = visits * present.exp() / task.shape[0]
            loss = loss + beta * (chance * kl_losses(form, present, uniform)).sum()
        policy.step(loss)
        schedule.step()
    final = policy.log_probs().detach()
    reward, kl = task.expected_reward(final).mean(1), task.kl(final, uniform)
    return {"reward": reward, "kl_start": kl, "gap": task.best(beta) - (reward - beta * kl)}


def fixed_point_table(seeds: int, seed: int = 0, betas: Sequence[float] = BETAS) -> pd.DataFrame:
    """Return a line a form and beta; mean and standard error over seeds, which differ in the prompt vectors."""
    rows = [(form, beta) for form in FORMS for beta in betas]
    return pd.DataFrame(
        [{"label": form, "beta": beta, **over_seeds(fixed_point(form, beta, seeds, seed))} for form, beta in rows]
    )
