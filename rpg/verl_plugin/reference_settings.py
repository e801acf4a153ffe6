"""The settings of pi_ref, without torch, for code that only reads a configuration.

rpg/config validates them (settings.py: single values, rules.py: combinations).
"""

from dataclasses import dataclass

KEY = "rpg.reference"


@dataclass(frozen=True)
class ReferenceSettings:
    """When pi_ref is renewed.

    Attributes:
        mode: one of rpg.names.REFERENCES.
        every_k: optimizer steps between two updates, for mode every_k; an update waits for the next iteration.
        kl_target: kappa in nats per token, for mode kl_target.
        kl_ema: decay d of the moving average, ema <- d ema + (1 - d) kl once per iteration.
    """

    mode: str = "old"
    every_k: int | None = None
    kl_target: float | None = None
    kl_ema: float = 0.9

    @property
    def has_model(self) -> bool:
        """Whether pi_ref needs a forward pass: of another model, or with LoRA of the actor's base model."""
        return self.mode != "old"
