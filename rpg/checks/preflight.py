"""The preflight: checks that reject a run within seconds, before Ray starts, instead of after minutes.

It reports all errors, not only the first, and does not start Ray.
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

# in the order in which they run
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
    """Run the checks of these costs and subjects; yield each with its findings.

    Skips a check that reads a key of wrong type or range, and checks of cost "verl" if verl has another version or
    cannot be imported whole.
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
        if check in (machine.verl_version, installed.of_a_run):
            strange |= any(diagnostic.level == "error" for diagnostic in diagnostics)
        yield check, diagnostics


def refuse(run: Run, costs: Collection[Cost], subjects: Collection[Subject] = SUBJECTS) -> list[Diagnostic]:
    """Run these checks and return the warnings. Raises Refused with all errors if there are any."""
    diagnostics = [diagnostic for _, own in ask(run, costs, subjects) for diagnostic in own]
    if errors := [diagnostic for diagnostic in diagnostics if diagnostic.level == "error"]:
        raise Refused(errors)
    return [diagnostic for diagnostic in diagnostics if diagnostic.level == "warning"]
