"""The estimators `rpg` and `rpg_batchmean` in the form verl calls (algorithm.adv_estimator=rpg)."""

from typing import Any

import numpy as np
from torch import Tensor

from rpg.objectives.advantages import batch_mean_advantages, group_mean_advantages


def rpg(token_level_rewards: Tensor, response_mask: Tensor, index: np.ndarray, **_: Any) -> tuple[Tensor, Tensor]:
    """Reward minus the mean reward of the prompt's group (the paper, Section 5); in a group of one the reward.

    Args:
        token_level_rewards, response_mask: (batch, tokens).
        index: (batch,), verl's uid: equal for responses to the same prompt.

    Returns:
        advantages and returns, the same (batch, tokens) tensor twice, as in verl's estimators.
    """
    advantages = group_mean_advantages(token_level_rewards, response_mask, index)
    return advantages, advantages


def rpg_batchmean(token_level_rewards: Tensor, response_mask: Tensor, **_: Any) -> tuple[Tensor, Tensor]:
    """Reward minus the mean reward of the batch (the paper, Section 5); arguments and result as for rpg."""
    advantages = batch_mean_advantages(token_level_rewards, response_mask)
    return advantages, advantages


ESTIMATORS = {"rpg": rpg, "rpg_batchmean": rpg_batchmean}
