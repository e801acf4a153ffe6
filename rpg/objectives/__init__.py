"""The mathematics of RPG: torch only. Start at LossSpec and token_loss."""

from rpg.objectives.advantages import batch_mean_advantages, group_mean_advantages
from rpg.objectives.loss import TokenStats, token_loss
from rpg.objectives.spec import LOSS_NAMES, LossSpec

__all__ = [
    "LOSS_NAMES",
    "LossSpec",
    "TokenStats",
    "batch_mean_advantages",
    "group_mean_advantages",
    "token_loss",
]
