"""The study's contrasts and their least-squares estimates.

An outcome of a run is modelled as the sum of its method's and its seed's effect.
"""

from typing import NamedTuple

import pandas
from report import SCORE, Estimate, difference

ROWS = "eight rows"  # RPG and RPG-REINFORCE with their own advantages: one method (rpg/lab/identity.py)
DIVIDED, UNDIVIDED = "eight rows, divided", "GRPO, not divided"
DIVERGENCES = ("FKL", "RKL", "UFKL", "URKL")  # of the study
REINFORCE = tuple(f"RPG-REINFORCE-{d}" for d in DIVERGENCES)
DIFFERENTIABLE = tuple(f"RPG-{d}" for d in DIVERGENCES)
EIGHT = (*DIFFERENTIABLE, *REINFORCE)
UNNORMALISED, REVERSE = (tuple(row for row in EIGHT if mark in row) for mark in ("-U", "RKL"))
# seeds of all thirteen methods; of what was run again; both
FIRST, LATER, ALL = (1, 2, 3), (4, 5, 6, 7, 8, 9), tuple(range(1, 10))


class Contrast(NamedTuple):
    """Mean of the cells `plus` minus mean of `minus`, in the runs with these steps per batch and seeds.

    `by`: the column of the cells. `alike`: no other setting differs.
    """

    name: str
    steps: int
    seeds: tuple[int, ...]
    by: str
    plus: tuple[str, ...]
    minus: tuple[str, ...]
    alike: bool = True


def _rest(rows: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(row for row in EIGHT if row not in rows)


SAME, ADVANTAGE, CONFOUNDED = "A/A tests among the eight rows", "Advantages", "Confounded"
CONTRASTS = {
    SAME: (
        Contrast("REINFORCE minus differentiable", 16, FIRST, "method", REINFORCE, DIFFERENTIABLE),
        Contrast("reverse minus forward KL", 16, FIRST, "method", REVERSE, _rest(REVERSE)),
        Contrast("unnormalised minus normalised KL", 16, FIRST, "method", UNNORMALISED, _rest(UNNORMALISED)),
        Contrast("REINFORCE minus differentiable, 2 steps", 2, FIRST, "method", REINFORCE, DIFFERENTIABLE),
        Contrast("REINFORCE minus differentiable, 64 steps", 64, FIRST, "method", REINFORCE, DIFFERENTIABLE),
    ),
    ADVANTAGE: (
        Contrast("REINFORCE++ minus eight rows, seeds 1 to 3", 16, FIRST, "cell", ("REINFORCE++",), (ROWS,)),
        Contrast("the same, seeds 4 to 9", 16, LATER, "cell", ("REINFORCE++",), (ROWS,)),
        Contrast("the same, all seeds", 16, ALL, "cell", ("REINFORCE++",), (ROWS,)),
        Contrast("REINFORCE++ minus eight rows with division", 16, ALL, "cell", ("REINFORCE++",), (DIVIDED,)),
        Contrast("REINFORCE++-Baseline minus eight rows", 16, FIRST, "cell", ("REINFORCE++-Baseline",), (ROWS,)),
        Contrast("divided minus not divided, seeds 1 to 3", 16, FIRST, "cell", ("GRPO", DIVIDED), (UNDIVIDED, ROWS)),
        Contrast("the same, seeds 4 to 9", 16, LATER, "cell", ("GRPO", DIVIDED), (UNDIVIDED, ROWS)),
        Contrast("the same, all seeds", 16, ALL, "cell", ("GRPO", DIVIDED), (UNDIVIDED, ROWS)),
    ),
    CONFOUNDED: (
        Contrast("DAPO minus eight rows", 16, FIRST, "cell", ("DAPO",), (ROWS,), False),
        Contrast("eight rows minus GRPO, both divided", 16, ALL, "cell", (DIVIDED,), ("GRPO",), False),
        Contrast("eight rows minus GRPO, both not", 16, ALL, "cell", (ROWS,), (UNDIVIDED,), False),
        Contrast("DAPO minus eight rows, 2 steps", 2, FIRST, "cell", ("DAPO",), (ROWS,), False),
        Contrast("DAPO minus eight rows, 64 steps", 64, FIRST, "cell", ("DAPO",), (ROWS,), False),
    ),
}


def estimate(runs: pandas.DataFrame, contrast: Contrast, outcome: str) -> Estimate:
    """The contrast, blocked by seed; the error is that of all runs with these steps and seeds.

    DAPO is left out of the training score, which its filter changes: only kept groups are logged.
    """
    chosen = runs[(runs.steps == contrast.steps) & runs.seed.isin(contrast.seeds)]
    if contrast.by == "method":
        chosen = chosen[chosen.folder.str.startswith("steps_")]
    if outcome == SCORE:
        chosen = chosen[chosen.method != "DAPO"]
    return difference(chosen, contrast.by, contrast.plus, contrast.minus, outcome)
