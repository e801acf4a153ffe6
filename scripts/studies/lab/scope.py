"""When does the KL's scope pay? RPG-REINFORCE-URKL with RPG-Style Clip and a fixed reference: J at the end of training.

J = E[R] - beta KL(pi, pi_ref) of responses, exact; pi_ref is the uniform policy that training starts from.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor

from rpg.objectives import LossSpec, group_mean_advantages, later_kl_baseline, token_loss
from rpg.objectives.losses import sum_earlier
from scripts.studies.lab.policy import GROUP, GROUPS, Policy, at, over_seeds, sample
from scripts.studies.lab.task import Task

TOKEN, RESPONSE, CUT, REWARD = FORMS = ("token", "response", "response, prefix at most 2", "k1 in the reward")
LENGTHS, BETAS, STEPS = (6, 12, 24), (0.1, 0.3), (1, 16)
RATES = (0.01, 0.03, 0.1, 0.3)
UPDATES = 192  # optimizer steps, in batches of STEPS
CUT_AT = 2.0


class Cell(NamedTuple):
    """length: tokens of a response. steps: optimizer steps a batch, each on its own samples of the batch's policy."""

    length: int
    steps: int
    beta: float
    lr: float


CELLS = tuple(Cell(*values) for values in itertools.product(LENGTHS, STEPS, BETAS, RATES))


def train(form: str, cell: Cell, seeds: int, seed: int = 0) -> Tensor:
    """Train all seeds; return J at the end, (seeds,).

    CUT weights each token's loss by the product of w over its prefix, at most CUT_AT, which the gradient of the KL of
    responses has off-policy. REWARD subtracts beta (log pi_old - log pi_ref) of a response from its reward.
    """
    task, generator = Task.make(positions=cell.length), torch.Generator().manual_seed(seed)
    policy, size = Policy(task, seeds, cell.lr, generator), GROUPS * GROUP
    reference = policy.log_probs().detach()
    scope = "response" if form in (RESPONSE, CUT) else "token"
    beta = 0.0 if form == REWARD else cell.beta
    spec = LossSpec.parse("rpg_rf_urkl_clip_ppo", kl_coef=beta, kl_scope=scope)
    groups = torch.arange(seeds * cell.steps * GROUPS).repeat_interleave(GROUP)
    for _ in range(UPDATES // cell.steps):
        anchor = policy.log_probs().detach()
        places, rewards = sample(task, anchor, cell.steps, generator)
        old, ref = at(anchor, places), at(reference, places)
        if form == REWARD:
            rewards = rewards - cell.beta * (old - ref).sum(-1)
        rows = rewards.reshape(-1, 1)
        advantages = group_mean_advantages(rows, torch.ones_like(rows), groups).view(*rewards.shape, 1).expand_as(old)
        baseline = None
        if spec.has_later:
            flat_old, flat_ref = old.flatten(0, 1), ref.flatten(0, 1)
            baseline = later_kl_baseline(flat_old, flat_ref, torch.ones_like(flat_old), groups).view_as(old)
        for start in range(0, cell.steps * size, size):
            part = slice(start, start + size)
            log_prob = at(policy.log_probs(), places[:, part])
            losses, _ = token_loss(
                spec,
                log_prob=log_prob,
                old_log_prob=old[:, part],
                advantages=advantages[:, part],
                ref_log_prob=ref[:, part],
                kl_baseline=None if baseline is None else baseline[:, part],
            )
            if form == CUT:
                losses = losses * sum_earlier(log_prob.detach() - old[:, part]).exp().clamp(max=CUT_AT)
            policy.step(losses.sum() / losses[0].numel())
    final = policy.log_probs().detach()
    return task.expected_reward(final).mean(1) - cell.beta * task.kl(final, reference)


def scope_table(seeds: int, seed: int = 0, cells: Sequence[Cell] = CELLS) -> pd.DataFrame:
    """Return a line a cell: J at the start, J of each form, and each form's less that of TOKEN, paired."""
    table = []
    for cell in cells:
        task = Task.make(positions=cell.length)
        uniform = torch.zeros(1, *task.shape).log_softmax(2)
        ends = {form: train(form, cell, seeds, seed) for form in FORMS}
        less = {f"{form} less token": ends[form] - ends[TOKEN] for form in FORMS if form != TOKEN}
        start = task.expected_reward(uniform).mean().item()
        table.append({**cell._asdict(), "start": start, **over_seeds({**ends, **less})})
    return pd.DataFrame(table)
