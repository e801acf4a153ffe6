"""What the laboratory varies: grids of settings, each a heat map."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rpg.lab.train import Setting

Axis = Mapping[str, Mapping[str, Any]]  # label: the fields of Setting that it stands for

CLIPPED, UNCLIPPED = "rpg_rf_urkl_clip_ppo", "rpg_rf_urkl"
PAPERS_BETA = 1e-4
METHODS: Axis = {
    "RPG-REINFORCE URKL, RPG-Style Clip": {"loss": CLIPPED, "kl_coef": PAPERS_BETA},
    "RPG URKL, dual clip": {"loss": "rpg_urkl", "kl_coef": PAPERS_BETA},
    "RPG-REINFORCE URKL, hard clip": {"loss": "rpg_rf_urkl_clip_hard", "kl_coef": PAPERS_BETA},
    "RPG-REINFORCE URKL, no clip": {"loss": UNCLIPPED, "kl_coef": PAPERS_BETA},
    "verl vanilla (GRPO, DAPO)": {"loss": "vanilla"},
    "verl geo_mean (GMPO)": {"loss": "geo_mean"},
    "verl gspo": {"loss": "gspo"},
    "verl dppo_tv": {"loss": "dppo_tv"},
    "verl sapo": {"loss": "sapo"},
    "verl cispo": {"loss": "cispo"},
    "verl gpg (no weight)": {"loss": "gpg"},
}
CHOICES: Axis = {
    "recomputed": {"pi_old": "recomputed"},
    "behavior": {"pi_old": "behavior"},
    "decoupled, token": {"pi_old": "decoupled"},
    "decoupled, token, at most 2": {"pi_old": "decoupled", "threshold": 2.0},
    "decoupled, sequence": {"pi_old": "decoupled", "level": "sequence"},
    "decoupled, sequence, at most 2": {"pi_old": "decoupled", "level": "sequence", "threshold": 2.0},
}
SAME = ("RPG URKL, dual clip", "verl vanilla (GRPO, DAPO)")  # as RPG-Style Clip, where beta is as small as the paper's
THREE = {name: CHOICES[name] for name in ("recomputed", "behavior", "decoupled, token, at most 2")}
STALE = {"steps": 2, "kl_coef": PAPERS_BETA}  # two optimizer steps a batch, as our runs of the stack take


@dataclass(frozen=True)
class Grid:
    """One heat map: rows x columns of settings, and which measurement it shows."""

    title: str
    row_name: str
    rows: Axis
    column_name: str
    columns: Axis
    base: Mapping[str, Any]
    shown: str = "reward"

    def setting(self, row: str, column: str) -> Setting:
        """The setting of a cell."""
        return Setting(**{"loss": CLIPPED, **self.base, **self.rows[row], **self.columns[column]})

    def settings(self) -> list[Setting]:
        """All of them, row by row."""
        return [self.setting(row, column) for row in self.rows for column in self.columns]


@dataclass(frozen=True)
class Sweep:
    """Grids of one question."""

    name: str
    title: str
    text: str
    grids: tuple[Grid, ...]


def values(field: str, *numbers: float) -> Axis:
    """An axis over one field."""
    return {f"{number:g}": {field: number} for number in numbers}


def clip_rows(*bounds: float) -> Axis:
    """Symmetric clip bounds; infinity is the loss without a clip."""
    rows: dict[str, Mapping[str, Any]] = {
        f"{bound:g}": {"clip_low": bound, "clip_high": bound} for bound in bounds if bound < math.inf
    }
    return {**rows, **({"none": {"loss": UNCLIPPED}} if math.inf in bounds else {})}


def sweeps(quick: bool) -> tuple[Sweep, ...]:
    """All sweeps; quick: the same questions with fewer values."""
    return (_steps(quick), _staleness(quick), _clip(quick), _beta(quick), _staleness_and_lr(quick), _advantages(quick))


def unique_settings(found: Sequence[Sweep]) -> list[Setting]:
    """Every setting once."""
    return list(dict.fromkeys(setting for sweep in found for grid in sweep.grids for setting in grid.settings()))


RATES = values("lr", 0.025, 0.05, 0.1, 0.2)

MANY_STEPS = ((64, 16), (16, 64))  # batches, optimizer steps a batch: 1,024 steps both

BOTH = {"final reward": "reward", "mean over training": "reward_mean"}


def _batch(steps: int) -> str:
    return f"{steps} step{'s' * (steps > 1)} a batch"


def _fixed(batches: int, steps: int) -> dict[str, int]:
    return {"batches": batches, "steps": steps}


def _steps(quick: bool) -> Sweep:
    batches = 4 if quick else 64
    steps = values("steps", *((1, 16, 64) if quick else (1, 4, 16, 64)))
    methods = {name: METHODS[name] for name in list(METHODS)[:: 3 if quick else 1]}
    grids = [
        Grid(f"{measured}, {batches} batches, lr 0.05", "", methods, "optimizer steps a batch", steps,
             {"batches": batches}, shown)
        for measured, shown in BOTH.items()
    ]  # fmt: skip
    if not quick:
        apart = {name: METHODS[name] for name in METHODS if name not in SAME}
        grids += [
            Grid(f"{measured}, {n} batches of {k} steps", "", apart, "learning rate", RATES, _fixed(n, k), shown)
            for n, k in MANY_STEPS
            for measured, shown in BOTH.items()
        ]
    return Sweep(
        "steps",
        "Optimizer steps a batch",
        "The number of batches is the same in all columns of a picture. A batch of k steps is k mini-batches of 32 "
        "responses, each used once; its last step uses samples that are k - 1 steps old. More steps are more samples "
        "as well, so compare methods within a column.",
        tuple(grids),
    )


def _staleness(quick: bool) -> Sweep:
    staleness = values("staleness", *((0, 8, 32) if quick else (0, 1, 4, 8, 16, 32)))
    losses = {"RPG-Style Clip": CLIPPED, "no clip": UNCLIPPED}
    choices = THREE if quick else CHOICES
    grids = [
        Grid(f"{label}: {measured}", "pi_old", choices, "staleness", staleness, {**STALE, "loss": loss}, shown)
        for label, loss in losses.items()
        for measured, shown in BOTH.items()
    ]
    if not quick:
        grids += [
            Grid(f"verl {loss}: {measured}", "pi_old", THREE, "staleness", staleness, {"steps": 2, "loss": loss}, shown)
            for loss in ("cispo", "gspo")
            for measured, shown in BOTH.items()
        ]
        silenced, largest = "RPG-Style Clip: tokens silenced", "no clip: largest KL from mu"
        free = {**STALE, "loss": UNCLIPPED}
        grids += [
            Grid(silenced, "pi_old", choices, "staleness", staleness, STALE, "silenced"),
            Grid(largest, "pi_old", choices, "staleness", staleness, free, "kl"),
        ]
    return Sweep(
        "staleness",
        "Staleness and the choice of pi_old",
        "RPG-REINFORCE URKL, with RPG-Style Clip and without, and two losses of verl's. Two optimizer steps a batch; "
        "the policy that samples is that many batches old.",
        tuple(grids),
    )


def _clip(quick: bool) -> Sweep:
    bounds = clip_rows(*((0.1, 0.4, math.inf) if quick else (0.05, 0.1, 0.2, 0.4, 0.8, math.inf)))
    steps = values("steps", *((1, 16, 64) if quick else (1, 4, 16, 64)))
    batches = 4 if quick else 64
    beta = {"kl_coef": PAPERS_BETA, "batches": batches}
    many, late = {**beta, "steps": 16}, {**STALE, "staleness": 16}
    title = "mean over training, "
    grids = [
        Grid(f"{title}{batches} batches", "clip", bounds, "optimizer steps a batch", steps, beta, "reward_mean"),
        Grid(f"{title}staleness 16", "clip", bounds, "pi_old", THREE, late, "reward_mean"),
    ]
    if not quick:
        low, high = values("clip_low", 0.1, 0.2, 0.4), values("clip_high", 0.1, 0.28, 0.5, 1, 4)
        grids += [
            Grid(f"{title}{_batch(16)}", "clip", bounds, "learning rate", RATES, many, "reward_mean"),
            Grid(f"{title}{_batch(16)}", "clip_low", low, "clip_high", high, many, "reward_mean"),
        ]
    return Sweep(
        "clip",
        "Clip bounds",
        "RPG-REINFORCE URKL with RPG-Style Clip; the same bound on both sides but in the last picture. The number of "
        "batches is fixed; the second picture takes two steps a batch.",
        tuple(grids),
    )


def _beta(quick: bool) -> Sweep:
    betas = values("kl_coef", *((1e-4, 0.01, 0.1, 1) if quick else (1e-4, 0.01, 0.03, 0.1, 0.3, 1)))
    names = ("urkl",) if quick else ("fkl", "rkl", "ufkl", "urkl")
    losses = {f"{d.upper()}, RPG-Style Clip": {"loss": f"rpg_rf_{d}_clip_ppo"} for d in names}
    losses |= {f"{d.upper()}, no clip": {"loss": f"rpg_rf_{d}"} for d in names}
    fixed: Axis = {
        "verl vanilla + its KL loss (k3, clamped at 10)": {"loss": "vanilla"},
        "RPG URKL, dual clip (corrected k3)": {"loss": "rpg_urkl"},
        "RPG-REINFORCE URKL, RPG-Style Clip": {"loss": CLIPPED},
        "RPG-REINFORCE URKL, no clip": {"loss": UNCLIPPED},
    }
    some = values("kl_coef", *((0.01, 0.1) if quick else (0.01, 0.03, 0.1, 0.3)))
    shown = {"final reward": "reward", "largest KL from it": "kl"}
    grids = [
        Grid(f"pi_ref = pi_old: {measured}", "", losses, "beta", betas, _fixed(2 if quick else 16, 64), field)
        for measured, field in shown.items()
    ]
    grids += [
        Grid(f"fixed, {_batch(k)}: J below its maximum", "", fixed, "beta", some,
             {**_fixed(n, k), "reference": "fixed"}, "gap")
        for n, k in (((8, 16),) if quick else ((256, 1), (64, 16)))
    ]  # fmt: skip
    return Sweep(
        "beta",
        "The coefficient of the KL",
        "First with pi_old as the reference, 16 batches of 64 steps. Then with the uniform policy that training starts "
        "from, and the number is how far E[R] - beta KL(pi, uniform) of whole responses ends below its exact maximum.",
        tuple(grids),
    )


def _staleness_and_lr(quick: bool) -> Sweep:
    rates = values("lr", *((0.05, 0.2) if quick else (0.05, 0.1, 0.2)))
    grids = [
        Grid(f"{label}, staleness {age}: {measured}", "pi_old", THREE, "learning rate", rates,
             {**STALE, "loss": loss, "staleness": age}, shown)
        for label, loss in {"RPG-Style Clip": CLIPPED, "no clip": UNCLIPPED}.items()
        for age in ((16,) if quick else (4, 16))
        for measured, shown in BOTH.items()
    ]  # fmt: skip
    return Sweep("lr", "Staleness against learning rate", "RPG-REINFORCE URKL; two steps a batch.", tuple(grids))


def _advantages(quick: bool) -> Sweep:
    rows: Axis = {
        "less the group's mean (RPG)": {"advantages": "mean"},
        "over its standard deviation too (GRPO, DAPO)": {"advantages": "std"},
        "whitened over the batch (REINFORCE++)": {"advantages": "whitened"},
    }
    rates = values("lr", *((0.025, 0.1) if quick else (0.0125, 0.025, 0.05, 0.1, 0.2)))
    grids = [
        Grid(f"{measured}, {_batch(k)}", "advantages", rows, "learning rate", rates,
             {**_fixed(n, k), "kl_coef": PAPERS_BETA}, shown)
        for n, k in (((8, 16),) if quick else ((128, 2), *MANY_STEPS))
        for measured, shown in BOTH.items()
    ]  # fmt: skip
    return Sweep(
        "advantages",
        "What the advantages are divided by",
        "RPG-REINFORCE URKL with RPG-Style Clip; fresh samples, 8 responses to a prompt.",
        tuple(grids),
    )


def fields(setting: Setting) -> dict[str, Any]:
    """A setting's fields by name, in their order."""
    return {field.name: getattr(setting, field.name) for field in dataclasses.fields(setting)}
