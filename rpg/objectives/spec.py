"""LossSpec: which divergence, which estimator, which clip, and the numbers that go with them."""

import difflib
import math
from dataclasses import dataclass
from typing import Any, Self

from rpg.names import CLIP_BRANCHES, CLIP_SCOPES, KL_SCOPES, LOSSES, REVERSE

_NAME_OF = {parts: name for name, parts in LOSSES.items()}


@dataclass(frozen=True)
class LossSpec:
    """One cell of divergence x estimator x clip, with its numbers; an invalid one cannot be built.

    Attributes:
        divergence: fkl, rkl, ufkl or urkl (the paper's Tables 1, 2 and 4).
        estimator: "differentiable" (loss differentiated through w) or "reinforce" (weight detached).
        clip: "dual" for differentiable losses; for REINFORCE losses "none" or one of the paper's RPG-Style Clips:
            "dual" (the weight w A' with w dual-clipped, Eq. 4.1), "hard" (the clamped ratio wherever w stands,
            Remark F.2) or "ppo" (Algorithm 2).
        kl_coef: beta, the coefficient of the divergence in J = E[A] - beta D; 1e-4 in tables, also 1e-3 in Figure 9.
        clip_low, clip_high: eps_low and eps_high; w is clipped to [1 - clip_low, 1 + clip_high].
        clip_c: c, upper bound of w where the clipped quantity is negative (dual clip), above 1.
        clip_scope: what the clip of a differentiable loss acts on: "reward" (the reward term; the KL loss stays
            exact, as the release ran and, for FKL and UFKL, Appendix G.2), "regularized" (the detached regularised
            advantage, G.2 for RKL and URKL), "hard" (the ratio wherever it occurs) or "none" (the exact loss).
        clip_branch: what selects the two cases of "ppo": "psi" (Algorithm 2) or "advantage"
            (as the release's unused function did).
        z_old: Z_old, total mass of pi_old. Enters UFKL and URKL only: FKL and RKL are defined between
            normalised policies and have no Z in the paper's table.
        kl_scope: "token" (D is the KL of the next token at the prefixes of pi_old, as in the paper's code) or
            "response" (D is the KL of responses; docs/mathematics.md, "Response-level KL"; z_old must be 1).
        rho_bound: with kl_scope "response", FKL and UFKL limit the log of the prefix's product of rho to +-rho_bound.

    Raises:
        ValueError: a value outside its range or vocabulary; the message names the field and what it accepts.
    """

    divergence: str
    estimator: str
    clip: str
    kl_coef: float = 1e-4
    clip_low: float = 0.2
    clip_high: float = 0.28
    clip_c: float = 10.0
    clip_scope: str = "reward"
    clip_branch: str = "psi"
    z_old: float = 1.0
    kl_scope: str = "token"
    rho_bound: float = 20.0  # the clamp of all log-ratios: exact for near policies; runs take RHO_BOUND

    def __post_init__(self) -> None:
        if (self.divergence, self.estimator, self.clip) not in _NAME_OF:
            raise ValueError(
                f"no loss has divergence={self.divergence!r}, estimator={self.estimator!r}, "
                f"clip={self.clip!r}; the loss names are {', '.join(LOSSES)}"
            )
        _require_choice("clip_scope", self.clip_scope, CLIP_SCOPES)
        _require_choice("clip_branch", self.clip_branch, CLIP_BRANCHES)
        for field in ("kl_coef", "clip_low", "clip_high"):
            _require_number(field, getattr(self, field), "finite and at least 0", lambda value: value >= 0)
        _require_number("clip_c", self.clip_c, "finite and above 1", lambda value: value > 1)
        for field in ("z_old", "rho_bound"):
            _require_number(field, getattr(self, field), "finite and above 0", lambda value: value > 0)
        _require_choice("kl_scope", self.kl_scope, KL_SCOPES)
        if self.kl_scope == "response" and self.z_old != 1:
            raise ValueError(
                f"kl_scope='response' with z_old={self.z_old!r}: the KL of responses is between normalised policies; "
                "set z_old=1 or kl_scope='token'"
            )

    @classmethod
    def parse(cls, name: str, **settings: Any) -> Self:
        """The spec of one of the twenty loss names; `settings` are the remaining fields.

        Raises:
            ValueError: the name is unknown (the message holds the nearest one) or a setting is invalid.
        """
        if name not in LOSSES:
            nearest = difflib.get_close_matches(name, LOSSES, n=1, cutoff=0.0)[0]
            raise ValueError(f"unknown loss name {name!r}; did you mean {nearest!r}? Known names: {', '.join(LOSSES)}")
        divergence, estimator, clip = LOSSES[name]
        return cls(divergence, estimator, clip, **settings)

    @property
    def name(self) -> str:
        """The loss name: `LossSpec.parse(name).name == name`."""
        return _NAME_OF[(self.divergence, self.estimator, self.clip)]

    @property
    def has_later(self) -> bool:
        """Whether the loss has the KL of later tokens, for which `kl_baseline` is the baseline."""
        return self.kl_scope == "response" and self.divergence in REVERSE

    @property
    def has_prefix(self) -> bool:
        """Whether the loss weights a token's KL by rho of its prefix, which `rho_bound` limits."""
        return self.kl_scope == "response" and self.divergence not in REVERSE

    @property
    def bounds(self) -> tuple[float, float]:
        """1 - eps_low and 1 + eps_high."""
        return 1 - self.clip_low, 1 + self.clip_high

    @property
    def rule(self) -> str:
        """The one clipping rule in force: none, dual, hard, psi or advantage; differentiable: clip_scope."""
        if self.estimator == "differentiable":
            return self.clip_scope
        return self.clip_branch if self.clip == "ppo" else self.clip


def _require_choice(field: str, value: Any, choices: tuple[str, ...]) -> None:
    if value not in choices:
        raise ValueError(f"{field}={value!r} is not one of {', '.join(choices)}")


def _require_number(field: str, value: Any, wanted: str, accepts) -> None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    if not is_number or not math.isfinite(value) or not accepts(value):
        raise ValueError(f"{field}={value!r} must be a number, {wanted}")
