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
_MODULES = {
    "LOSS_NAMES": "spec",
    "LossSpec": "spec",
    "TokenStats": "tokens",
    "batch_mean_advantages": "advantages",
    "group_mean_advantages": "advantages",
    "token_loss": "tokens",
    "token_loss_summary": "tokens",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_MODULES[name]}"), name)
