"""The study's contrasts and their least-squares estimates.

The model of a run's outcome is the sum of the effects of its method and its seed.
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
REVERSE, FORWARD = (tuple(row for row in EIGHT if mark in row) for mark in ("RKL", "FKL"))
UNNORMALISED = tuple(row for row in EIGHT if "-U" in row)
NORMALISED = tuple(row for row in EIGHT if row not in UNNORMALISED)
# seeds of all thirteen methods; seeds of the repeated ones; both
FIRST, LATER, ALL = (1, 2, 3), (4, 5, 6, 7, 8, 9), tuple(range(1, 10))


class Contrast(NamedTuple):
    """Mean of the cells `plus` minus mean of `minus`, in the runs with these steps per batch and seeds."""

    name: str
    steps: int
    seeds: tuple[int, ...]
    plus: tuple[str, ...]
    minus: tuple[str, ...]


SAME, ADVANTAGE, CONFOUNDED = "A/A tests among the eight rows", "Advantages", "Confounded"
CONTRASTS = {  # the cells of SAME are methods
    SAME: (
        Contrast("REINFORCE minus differentiable", 16, FIRST, REINFORCE, DIFFERENTIABLE),
        Contrast("reverse minus forward KL", 16, FIRST, REVERSE, FORWARD),
        Contrast("unnormalised minus normalised KL", 16, FIRST, UNNORMALISED, NORMALISED),
        Contrast("REINFORCE minus differentiable, 2 steps", 2, FIRST, REINFORCE, DIFFERENTIABLE),
        Contrast("REINFORCE minus differentiable, 64 steps", 64, FIRST, REINFORCE, DIFFERENTIABLE),
    ),
    ADVANTAGE: (
        Contrast("REINFORCE++ minus eight rows, seeds 1 to 3", 16, FIRST, ("REINFORCE++",), (ROWS,)),
        Contrast("the same, seeds 4 to 9", 16, LATER, ("REINFORCE++",), (ROWS,)),
        Contrast("the same, all seeds", 16, ALL, ("REINFORCE++",), (ROWS,)),
        Contrast("REINFORCE++ minus eight rows with division", 16, ALL, ("REINFORCE++",), (DIVIDED,)),
        Contrast("REINFORCE++-Baseline minus eight rows", 16, FIRST, ("REINFORCE++-Baseline",), (ROWS,)),
        Contrast("divided minus not divided, seeds 1 to 3", 16, FIRST, ("GRPO", DIVIDED), (UNDIVIDED, ROWS)),
        Contrast("the same, seeds 4 to 9", 16, LATER, ("GRPO", DIVIDED), (UNDIVIDED, ROWS)),
        Contrast("the same, all seeds", 16, ALL, ("GRPO", DIVIDED), (UNDIVIDED, ROWS)),
    ),
    CONFOUNDED: (  # other settings differ as well
        Contrast("DAPO minus eight rows", 16, FIRST, ("DAPO",), (ROWS,)),
        Contrast("eight rows minus GRPO, both divided", 16, ALL, (DIVIDED,), ("GRPO",)),
        Contrast("eight rows minus GRPO, both not", 16, ALL, (ROWS,), (UNDIVIDED,)),
        Contrast("DAPO minus eight rows, 2 steps", 2, FIRST, ("DAPO",), (ROWS,)),
        Contrast("DAPO minus eight rows, 64 steps", 64, FIRST, ("DAPO",), (ROWS,)),
    ),
}


def estimate(runs: pandas.DataFrame, title: str, contrast: Contrast, outcome: str) -> Estimate | None:
    """Return the contrast, blocked by seed, with the residual error of all runs with these steps and seeds.

    The training score excludes DAPO, because its filter logs only kept groups. Returns None for the training score of
    a confounded contrast, because its rows differ in reward shaping.
    """
    if outcome == SCORE and title == CONFOUNDED:
        return None
    chosen = runs[(runs.steps == contrast.steps) & runs.seed.isin(contrast.seeds)]
    if title == SAME:
        chosen = chosen[chosen.folder.str.startswith("steps_")]
    if outcome == SCORE:
        chosen = chosen[chosen.method != "DAPO"]
    return difference(chosen, "method" if title == SAME else "cell", contrast.plus, contrast.minus, outcome)
