"""The estimators `rpg` and `rpg_batchmean` in the form verl calls (algorithm.adv_estimator=rpg)."""

import functools
import sys
from typing import Any

import numpy as np
import torch
from torch import Tensor

from rpg.objectives.advantages import batch_mean_advantages, group_mean_advantages


def rpg(token_level_rewards: Tensor, response_mask: Tensor, index: np.ndarray, **_: Any) -> tuple[Tensor, Tensor]:
    """Reward minus the mean reward of the prompt's group (the paper, Section 5).

    Args:
        token_level_rewards, response_mask: (batch, tokens).
        index: (batch,), verl's uid: equal for responses to the same prompt.

    Returns:
        advantages and returns, the same (batch, tokens) tensor twice, as in verl's estimators.
    """
    if len({*index}) == len(index):
        tell_of_groups_of_one()
    with torch.no_grad():
        advantages = group_mean_advantages(token_level_rewards, response_mask, index)
    return advantages, advantages


@functools.cache  # once a process
def tell_of_groups_of_one() -> None:
    """Print a warning that no group has a baseline."""
    message = "every group has one response (actor_rollout_ref.rollout.n=1?), and the advantage is the reward"
    print(f"WARNING: rpg: algorithm.adv_estimator=rpg: {message}; use n of 2 or more", file=sys.stderr, flush=True)


def rpg_batchmean(token_level_rewards: Tensor, response_mask: Tensor, **_: Any) -> tuple[Tensor, Tensor]:
    """Reward minus the mean reward of the batch (the paper, Section 5); arguments and result as for rpg."""
    with torch.no_grad():
        advantages = batch_mean_advantages(token_level_rewards, response_mask)
    return advantages, advantages


ESTIMATORS = {"rpg": rpg, "rpg_batchmean": rpg_batchmean}
