"""What would fail minutes later, refused within seconds: the checks that a run passes before Ray starts.

All that is wrong is shown, not the first of it. Nothing here starts Ray.
"""

import copy
from collections.abc import Collection, Iterator

from rpg.checks import (
    budgets,
    inputs,
    installed,
    machine,
    reward,
    rules,
    secrets,
    settings,
    verl_validation,
)
from rpg.checks.check import Check, Cost, Diagnostic, Refused, Run, Subject, WrongByItself

# in this order they are asked
MODULES = (secrets, settings, rules, reward, installed, machine, inputs, verl_validation, budgets)
CHECKS = [
    check
    for module in MODULES
    for check in (*vars(module).get("CHECKS", ()), *vars(module).values())
    if isinstance(check, Check)
]
SUBJECTS: tuple[Subject, ...] = ("settings", "files", "machine")


def ask(
    run: Run, costs: Collection[Cost], subjects: Collection[Subject] = SUBJECTS
) -> Iterator[tuple[Check, list[Diagnostic]]]:
    """Every check of these costs and subjects with what it found.

    A check that reads a key whose type or range is wrong is left out: it could only stumble over it. So are those
    that ask a verl of another version.
    """
    run, strange = copy.copy(run), False
    run.wrong = set()
    for check in CHECKS:
        if check.cost not in costs or check.subject not in subjects or (strange and check.cost == "verl"):
            continue
        try:
            diagnostics = list(check(run))
        except WrongByItself:
            continue
        if check is settings.values:
            run.wrong = {diagnostic.key for diagnostic in diagnostics}
        if check is machine.verl_version:
            strange = any(diagnostic.level == "error" for diagnostic in diagnostics)
        yield check, diagnostics


def refuse(run: Run, costs: Collection[Cost], subjects: Collection[Subject] = SUBJECTS) -> list[Diagnostic]:
    """Ask these checks; the warnings. Raises Refused with all errors where there are any."""
    diagnostics = [diagnostic for _, own in ask(run, costs, subjects) for diagnostic in own]
    if errors := [diagnostic for diagnostic in diagnostics if diagnostic.level == "error"]:
        raise Refused(errors)
    return [diagnostic for diagnostic in diagnostics if diagnostic.level == "warning"]
