"""The mathematics of RPG: torch only. Start at LossSpec and token_loss."""

from rpg.objectives.advantages import batch_mean_advantages, group_mean_advantages
from rpg.objectives.loss import token_loss, token_loss_summary
from rpg.objectives.spec import LOSS_NAMES, LossSpec
from rpg.objectives.stats import Summary
from rpg.objectives.terms import TokenStats

__all__ = [
    "LOSS_NAMES",
    "LossSpec",
    "Summary",
    "TokenStats",
    "batch_mean_advantages",
    "group_mean_advantages",
    "token_loss",
    "token_loss_summary",
]
