"""The sweeps of the laboratory: grids of settings, each a heat map."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

from rpg.names import DIVERGENCES, REVERSE
from scripts.studies.lab.train import Setting

Axis = Mapping[str, Mapping[str, Any]]  # label: fields of Setting


def values(field: str, *numbers: float) -> Axis:
    """Return an axis over one field."""
    return {f"{number:g}": {field: number} for number in numbers}


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
RESPONSE = {"kl_scope": "response"}
BASELINE = {"kl_scope": "response", "kl_baseline": True}
URKL, UFKL = {"loss": "rpg_rf_urkl"}, {"loss": "rpg_rf_ufkl"}
REVERSE_FORMS: Axis = {
    "URKL, per token": URKL,
    "URKL, per token, centred": {**URKL, "kl_baseline": True},
    "URKL, response": {**URKL, **RESPONSE},
    "URKL, response, baseline": {**URKL, **BASELINE},
    "k1 in the reward": {**URKL, "kl_in_reward": True},
}
FORWARD_FORMS: Axis = {"UFKL, per token": UFKL, "UFKL, response": {**UFKL, **RESPONSE}}
# with pi_ref = pi_old the baseline and k1 are 0, and UFKL is exact for responses
OLD_FORMS: Axis = {
    "URKL, per token": URKL,
    "URKL, response": REVERSE_FORMS["URKL, response"],
    "UFKL, per token": UFKL,
}
KLS_ALONE: Axis = {  # to pi_old, where UFKL is exact for responses
    f"{label}, beta {beta:g}": {**form, "kl_coef": beta}
    for label, form in {
        **{d.upper(): {"loss": f"rpg_rf_{d}"} for d in DIVERGENCES},
        "URKL of responses": {**URKL, **RESPONSE},
    }.items()
    for beta in (0.01, 0.03, 0.1, 0.3)
}
KLS: Axis = {
    **{d.upper(): {"loss": f"rpg_rf_{d}"} for d in DIVERGENCES},
    **{f"{d.upper()} of responses": {"loss": f"rpg_rf_{d}", **RESPONSE} for d in DIVERGENCES if d not in REVERSE},
    **{f"{d.upper()} of responses, baseline": {"loss": f"rpg_rf_{d}", **BASELINE} for d in REVERSE},
    "k1 in the reward": REVERSE_FORMS["k1 in the reward"],
    "k3": {"loss": "vanilla", "k3_clamped": False},
    "verl's k3 (clamped)": {"loss": "vanilla"},
}
BOUNDS: Axis = {
    **{f"({eps:g}, {eps:g})": {"clip_low": eps, "clip_high": eps} for eps in (0.05, 0.1, 0.2, 0.4, 0.8)},
    "(0.2, 0.28)": {},
    "none": {"loss": UNCLIPPED},
}
REFERENCES: Axis = {
    "pi_old": {"reference": "old"},
    "every 8 batches": {"reference": "every_k", "renew": 8},
    "KL above 0.5": {"reference": "kl_target", "renew": 0.5},
    "KL above 2": {"reference": "kl_target", "renew": 2.0},
    "fixed": {"reference": "fixed"},
}
ADVANTAGES: Axis = {
    "less the group's mean (RPG)": {"advantages": "mean"},
    "over its standard deviation too (GRPO, DAPO)": {"advantages": "std"},
    "whitened over the batch (REINFORCE++)": {"advantages": "whitened"},
}
RATES = values("lr", 0.025, 0.05, 0.1, 0.2, 0.4)
STALENESS = values("staleness", 0, 1, 4, 8, 16, 32)
STALE = {"steps": 2, "kl_coef": PAPERS_BETA}  # two optimizer steps per batch, as in our runs of the stack
BOTH = {"final reward": "reward", "mean over training": "reward_mean"}
QUICK = 8  # --quick divides `batches` by this


@dataclass(frozen=True)
class Grid:
    """One heat map: rows x columns of settings, and the measurement that it shows.

    The title may contain fields of base, such as {batches}.
    """

    title: str
    row_name: str
    rows: Axis
    column_name: str
    columns: Axis
    base: Mapping[str, Any]
    shown: str = "reward"

    def settings(self) -> list[Setting]:
        """Return the settings of all cells, row by row."""
        cells = ({**row, **column} for row in self.rows.values() for column in self.columns.values())
        return [Setting(**{"loss": CLIPPED, **self.base, **cell}) for cell in cells]

    def quick(self) -> Self:
        """Return the grid with the first and the last column, and fewer batches."""
        base = dict(self.base)
        if "batches" in base:
            base["batches"] //= QUICK
        columns = list(self.columns.items())
        return dataclasses.replace(self, columns=dict([columns[0], columns[-1]]), base=base)


def _batch(steps: int) -> str:
    return f"{steps} step{'s' * (steps > 1)} a batch"


def _stability() -> Iterable[Grid]:
    """Yield grids of methods with a clip and beta 0, and the KL to pi_old without a clip.

    A batch of k steps is k mini-batches of 32 responses, each used once; its last step uses samples that are k - 1
    steps old.
    """
    for batches, steps in ((16, 16), (64, 16), (16, 64), (64, 1)):
        base = {"batches": batches, "steps": steps}
        yield Grid(f"{{batches}} batches, {_batch(steps)}", "", METHODS, "learning rate", RATES, base)
    for steps in (16, 64):
        title = f"KL alone: {{batches}} batches, {_batch(steps)}"
        yield Grid(title, "", KLS_ALONE, "learning rate", RATES, {"batches": 16, "steps": steps})


def _clip() -> Iterable[Grid]:
    """Yield grids of RPG-REINFORCE URKL with RPG-Style Clip, beta 0."""
    base = {"batches": 16, "steps": 64}
    for measured, shown in BOTH.items():
        title = f"{measured}, {{batches}} batches of 64 steps"
        yield Grid(title, "clip_low, clip_high", BOUNDS, "learning rate", RATES, base, shown)


def _fixed_reference() -> Iterable[Grid]:
    """Yield grids with one step per batch, so that all weights w are 1 and only the KL differs.

    The reference is the uniform initial policy. J is E[R] - beta KL(pi, uniform) of responses.
    """
    betas = values("kl_coef", 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.15, 0.2, 0.3)
    base = {"batches": 512, "steps": 1, "reference": "fixed"}
    shown = {
        "final reward": "reward",
        "entropy of a response": "entropy",
        "pass@8": "pass_at_8",
        "J below its maximum": "gap",
    }
    for title, field in shown.items():
        yield Grid(title, "", KLS, "beta", betas, base, field)


def _moving_reference() -> Iterable[Grid]:
    """Yield grids of RPG-REINFORCE URKL with RPG-Style Clip."""
    betas = values("kl_coef", 0.01, 0.03, 0.1, 0.3, 1, 3)
    base = {"batches": 64, "steps": 16}
    for label, scope in (("", {}), (", KL of responses", RESPONSE)):
        for title, field in BOTH.items():
            yield Grid(f"{title}{label}", "reference", REFERENCES, "beta", betas, {**base, **scope}, field)


def _kl_scope() -> Iterable[Grid]:
    """Yield grids of unclipped REINFORCE losses by form of the KL; 512 optimizer steps each.

    J is E[R] - beta KL of responses to the reference, in the direction of the loss's KL, where the reference is fixed,
    else E[R].
    """
    betas = values("kl_coef", 0.03, 0.05, 0.1, 0.2, 0.3, 1)
    for reference in ("fixed", "every 8 batches", "pi_old"):
        for steps in (1, 4, 16):
            title = f"J below its maximum: {reference}, {_batch(steps)}"
            base = {"batches": 512 // steps, "steps": steps, **REFERENCES[reference]}
            if reference == "pi_old":
                if steps > 1:  # else log u is 0: no KL
                    yield Grid(title, "", OLD_FORMS, "beta", betas, base, "gap")
                continue
            yield Grid(title, "", REVERSE_FORMS, "beta", betas, base, "gap")
            yield Grid(title, "", FORWARD_FORMS, "beta", betas, base, "gap_forward")


def _staleness() -> Iterable[Grid]:
    """Yield grids of RPG-REINFORCE URKL with and without RPG-Style Clip, and of two verl losses without a KL."""
    free = {**STALE, "loss": UNCLIPPED}
    for label, rows, base in (
        ("RPG-Style Clip", CHOICES, STALE),
        ("no clip", CHOICES, free),
        ("verl cispo", THREE, {"steps": 2, "loss": "cispo"}),
        ("verl gspo", THREE, {"steps": 2, "loss": "gspo"}),
    ):
        for measured, shown in BOTH.items():
            yield Grid(f"{label}: {measured}", "pi_old", rows, "staleness", STALENESS, base, shown)
    yield Grid("RPG-Style Clip: tokens silenced", "pi_old", CHOICES, "staleness", STALENESS, STALE, "silenced")
    yield Grid("no clip: largest KL from mu", "pi_old", CHOICES, "staleness", STALENESS, free, "kl")


def _staleness_and_lr() -> Iterable[Grid]:
    """Yield grids of RPG-REINFORCE URKL, two steps per batch."""
    rates = values("lr", 0.05, 0.1, 0.2)
    for label, loss in {"RPG-Style Clip": CLIPPED, "no clip": UNCLIPPED}.items():
        for age in (4, 16):
            base = {**STALE, "loss": loss, "staleness": age}
            for measured, shown in BOTH.items():
                title = f"{label}, staleness {age}: {measured}"
                yield Grid(title, "pi_old", THREE, "learning rate", rates, base, shown)


def _advantages() -> Iterable[Grid]:
    """Yield grids of RPG-REINFORCE URKL with RPG-Style Clip, fresh samples, 8 responses per prompt."""
    rates = values("lr", 0.0125, 0.025, 0.05, 0.1, 0.2)
    for batches, steps in ((128, 2), (64, 16), (16, 64)):
        base = {"batches": batches, "steps": steps, "kl_coef": PAPERS_BETA}
        for measured, shown in BOTH.items():
            title = f"{measured}, {_batch(steps)}"
            yield Grid(title, "advantages", ADVANTAGES, "learning rate", rates, base, shown)


SWEEPS = {
    "stability": list(_stability()),
    "clip": list(_clip()),
    "fixed_reference": list(_fixed_reference()),
    "moving_reference": list(_moving_reference()),
    "kl_scope": list(_kl_scope()),
    "staleness": list(_staleness()),
    "lr": list(_staleness_and_lr()),
    "advantages": list(_advantages()),
}


def unique_settings(grids: Iterable[Grid]) -> Sequence[Setting]:
    """Return every setting once."""
    return list(dict.fromkeys(setting for grid in grids for setting in grid.settings()))
