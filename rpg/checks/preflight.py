"""All checks of a run, by cost and subject, in the order in which they run. They do not start Ray.

What holds before, compose.py and the constructor of RunConfig ensure: verl's version, decisions, types and ranges. A
check is added only if without it a result would be silently wrong, or hours of GPUs lost.
"""

import inspect
import sys
from collections.abc import Callable, Collection, Iterator
from typing import Literal

from rpg.checks import budgets, checkpoint, data, loss, machine, model, off_policy, settings, user, verl
from rpg.config.run_config import RunConfig
from rpg.diagnostics import ABSENT, Diagnostic, Findings, Refused

# cheap: does not import verl, a second in total; verl: imports verl or transformers, or reads a checkpoint;
# thorough: reads all rows, loads the tokenizer, starts processes
Cost = Literal["cheap", "verl", "thorough"]
# what a check depends on; files and machine of a submitted run are the cluster's
Subject = Literal["settings", "files", "machine"]
Check = Callable[[RunConfig], Findings]
SUBJECTS: tuple[Subject, ...] = ("settings", "files", "machine")
CHEAP_OR_VERL: tuple[Cost, ...] = ("cheap", "verl")  # costs of the checks that a run passes before Ray starts

CHECKS: dict[tuple[Cost, Subject], tuple[Check, ...]] = {
    ("cheap", "settings"): (
        settings.mini_batches,
        settings.ulysses,
        settings.token_budgets,
        settings.overlong_shaping,
        settings.dynamic_sampling,
        settings.resumption,
        settings.saving,
        settings.validation,
        settings.read_by_verl,
        settings.lora,
        loss.names_of_ours,
        loss.read_by_the_loss,
        loss.kl_counted_once,
        loss.reference,
        loss.aggregation_of_the_loss,
        loss.schedule_free,
        loss.kl_of_responses,
        loss.one_update_a_batch,
        loss.groups_of_one,
        off_policy.weights,
        off_policy.rejection_sampling,
        off_policy.asynchronous_pi_old,
        off_policy.kl_of_stale_responses,
        off_policy.staleness,
        off_policy.separate_rollouts,
        off_policy.sampled_distribution,
        user.judge,
    ),
    ("cheap", "files"): (user.reward_function, data.data_files, model.model_directory),
    ("cheap", "machine"): (
        machine.flash_attention,
        machine.schedule_free_package,
        machine.logger_packages,
        machine.devices,
        machine.shared_memory,
        machine.directory_name,
        machine.working_directory,
        budgets.weight_bucket,
        budgets.disk,
    ),
    ("verl", "settings"): (verl.registered, verl.dataclasses),
    ("verl", "machine"): (verl.cpus,),
    ("verl", "files"): (
        model.logits,
        data.prompts_fit,
        data.agent_loops,
        user.truths,
        user.reward_trial,
        checkpoint.checkpoint,
    ),
    ("thorough", "files"): (data.rows,),
    ("thorough", "machine"): (budgets.memory,),
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
        message = f"{error}, in {sys.prefix}"
        return [
            Diagnostic(
                "environment",
                ABSENT,
                message,
                "use the environment of scripts/setup_gpu.sh, or pip install 'verl[vllm]'",
            )
        ]


def ask(
    run: RunConfig, costs: Collection[Cost], subjects: Collection[Subject] = SUBJECTS
) -> Iterator[tuple[Check, list[Diagnostic]]]:
    """Run the checks of these costs and subjects; yield each with its findings."""
    for (cost, subject), checks in CHECKS.items():
        if cost in costs and subject in subjects:
            for check in checks:
                yield check, findings(check, run)


def refuse(
    run: RunConfig, costs: Collection[Cost] = CHEAP_OR_VERL, subjects: Collection[Subject] = SUBJECTS
) -> list[Diagnostic]:
    """Run these checks, cost by cost while there is no error, and return the warnings.

    Raises Refused with all errors of the first cost that has some.
    """
    warnings: list[Diagnostic] = []
    for cost in costs:
        diagnostics = [diagnostic for _, found in ask(run, [cost], subjects) for diagnostic in found]
        if errors := [diagnostic for diagnostic in diagnostics if diagnostic.level == "error"]:
            raise Refused(errors)
        warnings += [diagnostic for diagnostic in diagnostics if diagnostic.level == "warning"]
    return warnings
