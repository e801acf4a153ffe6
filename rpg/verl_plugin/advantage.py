"""The estimators `rpg` and `rpg_batchmean` in the form verl calls (algorithm.adv_estimator=rpg)."""

from typing import Any

import numpy as np
from torch import Tensor

from rpg.objectives.advantages import batch_mean_advantages, group_mean_advantages


def rpg(token_level_rewards: Tensor, response_mask: Tensor, index: np.ndarray, **_: Any) -> tuple[Tensor, Tensor]:
    """group_mean_advantages, as advantages and as returns; index is verl's uid, equal for responses to one prompt."""
    advantages = group_mean_advantages(token_level_rewards, response_mask, index)
    return advantages, advantages


def rpg_batchmean(token_level_rewards: Tensor, response_mask: Tensor, **_: Any) -> tuple[Tensor, Tensor]:
    """batch_mean_advantages, as advantages and as returns."""
    advantages = batch_mean_advantages(token_level_rewards, response_mask)
    return advantages, advantages


ESTIMATORS = {"rpg": rpg, "rpg_batchmean": rpg_batchmean}
