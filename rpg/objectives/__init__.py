"""The mathematics of RPG: torch only. Start at LossSpec and token_loss.

Names are imported when first asked for: spec.py, which names the losses, is needed where torch is not.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rpg.objectives.advantages import batch_mean_advantages, group_mean_advantages
    from rpg.objectives.spec import LOSS_NAMES, LossSpec
    from rpg.objectives.tokens import TokenStats, token_loss, token_loss_summary

__all__ = [
    "LOSS_NAMES",
    "LossSpec",
    "TokenStats",
    "batch_mean_advantages",
    "group_mean_advantages",
    "token_loss",
    "token_loss_summary",
]


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in ("spec", "advantages", "tokens"):  # the first is without torch
            imported = importlib.import_module(f"{__name__}.{module}")
            if hasattr(imported, name):
                return getattr(imported, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
