"""The mathematics of RPG: torch only. Start at LossSpec and token_loss."""

from rpg.names import LOSSES as LOSS_NAMES
from rpg.objectives.advantages import batch_mean_advantages, group_mean_advantages, later_kl_baseline
from rpg.objectives.spec import LossSpec
from rpg.objectives.tokens import TokenStats, token_loss, token_loss_summary

__all__ = [
    "LOSS_NAMES",
    "LossSpec",
    "TokenStats",
    "batch_mean_advantages",
    "group_mean_advantages",
    "later_kl_baseline",
    "token_loss",
    "token_loss_summary",
]
