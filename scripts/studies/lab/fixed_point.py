"""Fixed points of training with a fixed reference, by the exact expected gradient of each KL."""

from collections.abc import Sequence

import pandas as pd
import torch
from torch import Tensor

from rpg.names import DIVERGENCES
from rpg.objectives import LossSpec, token_loss
from scripts.studies.lab.measure import over_seeds
from scripts.studies.lab.task import Task
from scripts.studies.lab.train import Measured, Policy, Record, k3_loss
from scripts.studies.lab.verl_losses import verl_kl_loss

OF_RESPONSES = ("RKL of responses", "FKL of responses")  # normalised and unnormalised are one
FORMS = (*(d.upper() for d in DIVERGENCES), "k3", "verl's k3", *OF_RESPONSES)
BETAS = (1e-3, 3e-3, 0.01, 0.03, 0.1, 0.15, 0.2, 0.3)
STEPS, LR = 200, 0.1  # Adam's learning rate decays linearly to 0
SHOWN = ("reward", "gap", "kl_start", "entropy", "pass_at_8")


def kl_losses(form: str, log_probs: Tensor, reference: Tensor) -> Tensor:
    """Return each token's KL loss, beta 1, on-policy; both tensors (seeds, prompts, tokens, positions, states)."""
    if form == "k3":
        return k3_loss(log_probs, reference)
    if form == "verl's k3":
        return verl_kl_loss(log_probs, reference)
    spec = LossSpec.parse(f"rpg_rf_{form.lower()}", kl_coef=1.0)
    old = log_probs.detach()
    nothing = torch.zeros_like(old)
    return token_loss(spec, log_prob=log_probs, old_log_prob=old, advantages=nothing, ref_log_prob=reference)[0]


def fixed_point(form: str, beta: float, seeds: int, seed: int = 0, task: Task | None = None) -> Measured:
    """Train with the exact expected gradient of E[R] and of the on-policy token losses, or of the KL of responses."""
    task = task or Task.make()
    policy = Policy(task, seeds, LR, torch.Generator().manual_seed(seed))
    uniform = policy.log_probs().detach()
    schedule = torch.optim.lr_scheduler.LinearLR(policy.optimizer, 1.0, 0.0, STEPS)
    for _ in range(STEPS):
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
    record = Record(task, uniform)
    record.policy(policy.log_probs().detach(), uniform)
    return record.result(beta)


def fixed_point_table(seeds: int, seed: int = 0, betas: Sequence[float] = BETAS) -> pd.DataFrame:
    """Return one line per form and beta; mean and standard error over seeds, which differ in the prompt vectors."""
    rows = []
    for form, beta in [("none", 0.0), *((form, beta) for form in FORMS for beta in betas)]:
        measured = fixed_point(form, beta, seeds, seed)._asdict()
        rows.append({"form": form, "beta": beta, **over_seeds({name: measured[name] for name in SHOWN})})
    return pd.DataFrame(rows)
