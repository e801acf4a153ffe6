"""When pi_ref is renewed: the settings alone, without torch, for those who only read a configuration."""

import math
from dataclasses import dataclass
from typing import Any

from omegaconf import DictConfig, OmegaConf

MOVING = ("every_k", "kl_target")  # a model of its own that changes
MODES = ("old", "fixed", *MOVING)
KEY = "rpg.reference"


@dataclass(frozen=True)
class ReferenceSettings:
    """When pi_ref is renewed.

    Attributes:
        mode: one of MODES.
        every_k: optimizer steps between two updates, for mode every_k; an update waits for the next iteration.
        kl_target: kappa in nats a token, for mode kl_target.
        kl_ema: decay d of the moving average, ema <- d ema + (1 - d) kl once an iteration.

    Raises:
        ValueError: a value outside its range or vocabulary, or one that the mode needs and lacks.
    """

    mode: str = "old"
    every_k: int | None = None
    kl_target: float | None = None
    kl_ema: float = 0.9

    def __post_init__(self) -> None:
        if self.mode not in MODES:
            raise ValueError(f"{KEY}.mode={self.mode!r} must be one of {', '.join(MODES)}")
        if self.mode == "every_k" and not (_is_number(self.every_k, int) and self.every_k >= 1):  # type: ignore[operator]
            raise ValueError(f"{KEY}.every_k={self.every_k!r} must be a whole number of optimizer steps, at least 1")
        if self.mode == "kl_target" and not (_is_number(self.kl_target) and self.kl_target > 0):  # type: ignore[operator]
            raise ValueError(f"{KEY}.kl_target={self.kl_target!r} must be a number above 0, in nats a token")
        if not (_is_number(self.kl_ema) and 0 <= self.kl_ema < 1):
            raise ValueError(f"{KEY}.kl_ema={self.kl_ema!r} must be a number, at least 0 and below 1")

    @classmethod
    def of(cls, config: DictConfig) -> "ReferenceSettings":
        """Settings of a trainer configuration; one without `rpg.reference` is mode old."""
        section = OmegaConf.select(config, KEY)
        if section is None:
            return cls()
        known = set(cls.__dataclass_fields__)
        unknown = sorted(set(section) - known)
        if unknown:
            raise ValueError(f"{KEY}.{unknown[0]}: no such setting; known: {', '.join(sorted(known))}")
        return cls(**OmegaConf.to_container(section, resolve=True))  # type: ignore[arg-type]

    @property
    def has_model(self) -> bool:
        """Whether pi_ref has a forward pass of its own: of another model, or with LoRA of the actor's base model."""
        return self.mode != "old"

    @property
    def moves(self) -> bool:
        """Whether that model changes, so that a checkpoint has to hold it."""
        return self.mode in MOVING


def _is_number(value: Any, kind: type | tuple[type, ...] = (int, float)) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool) and math.isfinite(value)
