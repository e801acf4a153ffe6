"""The sweeps of the laboratory: grids of settings, each a heat map."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rpg.lab.train import Setting
from rpg.objectives.spec import DIVERGENCE_NAMES

Axis = Mapping[str, Mapping[str, Any]]  # label: the fields of Setting that it stands for

CLIPPED, UNCLIPPED = "rpg_rf_urkl_clip_ppo", "rpg_rf_urkl"
PAPERS_BETA = 1e-4
METHODS: Axis = {
    "no clip": {"loss": UNCLIPPED},
    "hard clip": {"loss": "rpg_rf_urkl_clip_hard"},
    "RPG-Style Clip": {},
    "dual clip (RPG, verl's vanilla)": {"loss": "vanilla"},
    "verl cispo": {"loss": "cispo"},
    "verl gspo": {"loss": "gspo"},
}
CHOICES: Axis = {
    "recomputed": {"pi_old": "recomputed"},
    "behavior": {"pi_old": "behavior"},
    "decoupled, token": {"pi_old": "decoupled"},
    "decoupled, token, at most 2": {"pi_old": "decoupled", "threshold": 2.0},
    "decoupled, sequence": {"pi_old": "decoupled", "level": "sequence"},
    "decoupled, sequence, at most 2": {"pi_old": "decoupled", "level": "sequence", "threshold": 2.0},
}
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


RATES = values("lr", 0.025, 0.05, 0.1, 0.2, 0.4)
MANY_STEPS = ((64, 16), (16, 64))  # batches, optimizer steps a batch: 1,024 steps both
BOTH = {"final reward": "reward", "mean over training": "reward_mean"}


def sweeps(quick: bool) -> tuple[Sweep, ...]:
    """All sweeps; quick: the same questions with fewer values."""
    return (
        _stability(quick),
        _clip(quick),
        _fixed_reference(quick),
        _moving_reference(quick),
        _staleness(quick),
        _staleness_and_lr(quick),
        _advantages(quick),
    )


def unique_settings(chosen: Sequence[Sweep]) -> list[Setting]:
    """Every setting once."""
    return list(dict.fromkeys(setting for sweep in chosen for grid in sweep.grids for setting in grid.settings()))


def _batch(steps: int) -> str:
    return f"{steps} step{'s' * (steps > 1)} a batch"


def _fixed(batches: int, steps: int) -> dict[str, int]:
    return {"batches": batches, "steps": steps}


def _stability(quick: bool) -> Sweep:
    rates = dict(list(RATES.items())[:: 2 if quick else 1])
    betas = (0.01, 0.3) if quick else (0.01, 0.03, 0.1, 0.3)
    kls = {
        f"{d.upper()}, beta {beta:g}": {"loss": f"rpg_rf_{d}", "kl_coef": beta}
        for d in DIVERGENCE_NAMES
        for beta in betas
    }
    scales = [(4, 4), (4, 16)] if quick else [(16, 16), (64, 16), (16, 64), (64, 1)]
    alone = [(4, 16)] if quick else [(16, 16), (16, 64)]
    grids = [
        Grid(f"{label}{n} batches, {_batch(k)}", "", rows, "learning rate", rates, _fixed(n, k))
        for label, rows, some in (("", METHODS, scales), ("KL alone: ", kls, alone))
        for n, k in some
    ]
    return Sweep(
        "stability",
        "What holds the step",
        "Final reward of methods with a clip and beta 0, and of the KL to pi_old without a clip. A batch of k steps is "
        "k mini-batches of 32 responses, each used once; its last step uses samples that are k - 1 steps old.",
        tuple(grids),
    )


def _clip(quick: bool) -> Sweep:
    symmetric = (0.1, 0.4) if quick else (0.05, 0.1, 0.2, 0.4, 0.8)
    bounds: Axis = {
        **{f"({bound:g}, {bound:g})": {"clip_low": bound, "clip_high": bound} for bound in symmetric},
        "(0.2, 0.28)": {},
        "none": {"loss": UNCLIPPED},
    }
    grids = [
        Grid(f"{measured}, {n} batches of {k} steps", "clip_low, clip_high", bounds, "learning rate", RATES,
             _fixed(n, k), shown)
        for n, k in (((4, 16) if quick else (16, 64)),)
        for measured, shown in BOTH.items()
    ]  # fmt: skip
    return Sweep("clip", "Clip bounds", "RPG-REINFORCE URKL with RPG-Style Clip, beta 0.", tuple(grids))


K3: Axis = {
    "k3": {"loss": "vanilla", "k3_clamped": False},
    "verl's k3 (clamped)": {"loss": "vanilla"},
}
KLS: Axis = {**{d.upper(): {"loss": f"rpg_rf_{d}"} for d in DIVERGENCE_NAMES}, **K3}


def _fixed_reference(quick: bool) -> Sweep:
    betas = values("kl_coef", *((0.01, 0.1) if quick else (1e-3, 3e-3, 0.01, 0.03, 0.1, 0.15, 0.2, 0.3)))
    base = {**_fixed(16 if quick else 512, 1), "reference": "fixed"}
    shown = {
        "final reward": "reward",
        "entropy of a response": "entropy",
        "pass@8": "pass_at_8",
        "J below its maximum": "gap",
    }
    grids = [Grid(title, "", KLS, "beta", betas, base, field) for title, field in shown.items()]
    return Sweep(
        "fixed_reference",
        "Which KL to a fixed reference",
        "512 batches of one step, so that every weight w is 1 and only the KL differs; the reference is the uniform "
        "policy that training starts from. J is E[R] - beta KL(pi, uniform) of whole responses.",
        tuple(grids),
    )


def _moving_reference(quick: bool) -> Sweep:
    betas = values("kl_coef", *((0.01, 0.3) if quick else (0.01, 0.03, 0.1, 0.3, 1, 3)))
    rows: Axis = {
        "pi_old": {"reference": "old"},
        "every 8 batches": {"reference": "every_k", "renew": 8},
        "KL above 0.5": {"reference": "kl_target", "renew": 0.5},
        "KL above 2": {"reference": "kl_target", "renew": 2.0},
        "fixed": {"reference": "fixed"},
    }
    base = _fixed(4 if quick else 64, 16)
    grids = [Grid(title, "reference", rows, "beta", betas, base, field) for title, field in BOTH.items()]
    return Sweep(
        "moving_reference",
        "When the reference moves",
        "RPG-REINFORCE URKL with RPG-Style Clip, 64 batches of 16 steps.",
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
