"""All checks of a run, by cost and subject, in the order in which they run. They do not start Ray.

What holds before, compose.py and the constructor of RunConfig ensure: verl's version, decisions, types and ranges. A
check is added only if without it a result would be silently wrong, or hours of GPUs lost.
"""

import inspect
import sys
from collections.abc import Callable, Collection
from typing import Literal

from rpg.checks import checkpoint, data, loss, machine, model, off_policy, settings, user, verl
from rpg.config.run_config import RunConfig
from rpg.diagnostics import ABSENT, Diagnostic, Findings, Refused

# cheap: does not import verl, a second in total; verl: imports verl or transformers, or reads a checkpoint;
# thorough: of `rpg doctor` alone, an estimate
Cost = Literal["cheap", "verl", "thorough"]
# what a check depends on; files and machine of a submitted run are the cluster's
Subject = Literal["settings", "files", "machine"]
Check = Callable[[RunConfig], Findings]
SUBJECTS: tuple[Subject, ...] = ("settings", "files", "machine")
CHEAP_OR_VERL: tuple[Cost, ...] = ("cheap", "verl")  # costs of the checks that a run passes before Ray starts

CHECKS: dict[tuple[Cost, Subject], tuple[Check, ...]] = {
    ("cheap", "settings"): (
        settings.without_effect,
        settings.mini_batches,
        settings.ulysses,
        settings.token_budgets,
        settings.rewards_and_filter,
        settings.checkpoints_and_logs,
        loss.read_by_the_loss,
        loss.reference,
        loss.updates,
        off_policy.corrections,
        off_policy.asynchronous_pi_old,
        off_policy.stale_responses,
        off_policy.separate_rollouts,
        off_policy.sampled_distribution,
    ),
    ("cheap", "files"): (data.data_files, model.model_directory),
    ("cheap", "machine"): (
        machine.devices,
        machine.optimizer,
        machine.shared_memory,
        machine.disk,
    ),
    ("verl", "settings"): (verl.registered, verl.dataclasses),
    ("verl", "machine"): (verl.cpus,),
    ("verl", "files"): (
        model.trained_as_it_is,
        data.prompts_fit,
        user.truths,
        user.reward_trial,
        checkpoint.checkpoint,
    ),
    ("thorough", "machine"): (machine.memory,),
}


def name_of(check: Check) -> str:
    """Return a check's name as messages show it."""
    return check.__name__.replace("_", " ")


def rule_of(check: Check) -> str:
    """Return what must hold: the first sentence of the check's docstring."""
    return " ".join((inspect.getdoc(check) or "").partition("\n\n")[0].split())


def findings(check: Check, run: RunConfig) -> list[Diagnostic]:
    """Run a check; a package of verl's extras that is missing is its finding."""
    try:
        return list(check(run))
    except ImportError as error:
        remedy = "use the environment of scripts/setup_gpu.sh, or pip install 'verl[vllm]'"
        return [Diagnostic("environment", ABSENT, f"{error}, in {sys.prefix}", remedy)]


def refuse(
    run: RunConfig, costs: Collection[Cost] = CHEAP_OR_VERL, subjects: Collection[Subject] = SUBJECTS
) -> list[Diagnostic]:
    """Run these checks, cost by cost while there is no error, and return the warnings.

    Raises Refused with all errors of the first cost that has some.
    """
    found: list[Diagnostic] = []
    for cost in costs:
        for subject in subjects:
            for check in CHECKS.get((cost, subject), ()):
                found += findings(check, run)
        if errors := [diagnostic for diagnostic in found if diagnostic.level == "error"]:
            raise Refused(errors)
    return found
