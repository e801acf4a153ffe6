"""The section `rpg:` of a configuration: every setting that verl does not have, with types and the rules between them.

Values stand in recipe/rpg/config alone, so that verl's own command reads them too; verl's keys follow from them there.
"""

import re
from typing import Annotated, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    NonNegativeFloat,
    PositiveFloat,
    PositiveInt,
    ValidationInfo,
    field_validator,
)

from rpg.names import DIVERGENCES, KL_SCOPES, PI_OLD, REFERENCES

STRICT = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False, frozen=True)


def _one_line(text: str) -> str:
    if not text.strip() or re.search(r"[\x00-\x1f\x7f]", text):
        raise ValueError("must be one line of text, and not empty")
    return text


Line = Annotated[str, AfterValidator(_one_line)]
Fraction = Annotated[float, Field(ge=0, le=1)]
Variables = dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], str | int | float | bool]


class Reference(BaseModel):
    """pi_ref (docs/settings.md): its mode, and what renews it."""

    model_config = STRICT
    mode: Literal[REFERENCES]  # type: ignore[valid-type]
    every_k: PositiveInt | None  # optimizer steps
    kl_target: PositiveFloat | None  # nats per token
    kl_ema: Annotated[float, Field(ge=0, lt=1)]

    @field_validator("every_k", "kl_target")
    @classmethod
    def belongs_to_its_mode(cls, value: float | None, info: ValidationInfo) -> float | None:
        """Require the trigger of the mode, and no other."""
        mode = info.data.get("mode")
        if mode == info.field_name and value is None:
            raise ValueError(f"must be a number with rpg.reference.mode={mode}")
        if mode != info.field_name and value is not None:
            raise ValueError(f"has no effect with rpg.reference.mode={mode}; choose reference={info.field_name}")
        return value


class Section(BaseModel):
    """The section; meanings and sources stand beside the values in recipe/rpg/config/rpg_trainer.yaml."""

    model_config = STRICT
    script: Line | None
    method: Line | None
    divergence: Literal[DIVERGENCES]  # type: ignore[valid-type]
    kl_coef: NonNegativeFloat
    truncated_sampling: bool
    kl_scope: Literal[KL_SCOPES]  # type: ignore[valid-type]
    rho_bound: Annotated[float, Field(gt=0, le=20)]  # exp(20 + 20), with a token's own rho, is far from overflow
    pi_old: Literal[PI_OLD] | None  # type: ignore[valid-type]
    reference: Reference
    reward: Line | None = None  # config.yaml of an earlier run lacks it
    external_lib: list[Line]
    env: Variables
    data_dir: Line
    preload: dict[Literal["early", "late"], list[Line]]
    poll_interval: PositiveFloat
    resume_changed: bool
    nonfinite_limit: PositiveInt
    reward_limit: PositiveFloat | None
    left_out_limit: Fraction
    stall_limit: PositiveFloat | None
    time_limit: PositiveFloat | None
    max_num_seqs: dict[str, PositiveInt]
    gpu_memory: PositiveFloat
    console: Literal["full", "progress"]
