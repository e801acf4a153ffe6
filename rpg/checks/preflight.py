"""All checks of a run, by cost and subject, in the order in which they run. They do not start Ray.

What holds before, compose.py and the constructor of RunConfig ensure: verl's version, no secrets, types and ranges.
"""

import inspect
from collections.abc import Callable, Collection, Iterator
from typing import Literal

from rpg.checks import budgets, checkpoint, data, loss, machine, model, off_policy, packages, settings, user, verl
from rpg.config.run_config import RunConfig
from rpg.diagnostics import Diagnostic, Findings, Refused

# cheap: does not import verl, a second in total; verl: calls verl or transformers, whose import takes seconds;
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
        settings.ranks,
        settings.ulysses,
        settings.rollout_replicas,
        settings.rollout_sockets,
        settings.token_budgets,
        settings.overlong_shaping,
        settings.dynamic_sampling,
        settings.resumption,
        settings.saving,
        settings.metrics_file,
        settings.validation,
        settings.unread,
        settings.lora,
        settings.schedule_free,
        loss.names_of_ours,
        loss.read_by_the_loss,
        loss.kl_counted_once,
        loss.beta_reaches_the_loss,
        loss.scope_of_the_kl,
        loss.one_update_a_batch,
        loss.groups_of_one,
        loss.reference,
        loss.loss_sees_the_reference,
        loss.bounds_of_the_loss,
        loss.aggregation_of_the_loss,
        off_policy.sampled_distribution,
        off_policy.pi_old,
        off_policy.rejection_sampling,
        off_policy.asynchronous_pi_old,
        off_policy.kl_of_responses,
        off_policy.staleness,
        off_policy.separate_rollouts,
        user.judge,
    ),
    ("cheap", "files"): (
        user.reward_function,
        checkpoint.checkpoint,
        data.data_files,
        model.model_directory,
    ),
    ("cheap", "machine"): (
        packages.packages_of_a_run,
        packages.gpu_builds,
        packages.flash_attention,
        packages.cross_entropy,
        packages.schedule_free_package,
        packages.logger_packages,
        machine.gpu_driver,
        machine.build_tools,
        machine.devices,
        machine.shared_memory,
        machine.directory_name,
        budgets.weight_bucket,
        budgets.disk,
    ),
    ("verl", "settings"): (verl.registered, verl.rejection, verl.verl_types, verl.verl_validation),
    ("verl", "machine"): (verl.cpus,),
    ("verl", "files"): (model.architecture, data.prompts_fit, data.agent_loops, user.truths),
    ("thorough", "files"): (user.reward_trial, data.rows),
    ("thorough", "machine"): (budgets.memory,),
}

GPU_ONLY: tuple[Check, ...] = (
    packages.gpu_builds,
    packages.flash_attention,
    packages.cross_entropy,
    machine.gpu_driver,
    machine.build_tools,
    machine.shared_memory,
)  # find nothing on a CPU because they do not look


def name_of(check: Check) -> str:
    """Return a check's name as messages show it."""
    return check.__name__.replace("_", " ")


def rule_of(check: Check) -> str:
    """Return what must hold: the first sentence of the check's docstring."""
    return " ".join((inspect.getdoc(check) or "").partition("\n\n")[0].split())


def ask(
    run: RunConfig, costs: Collection[Cost], subjects: Collection[Subject] = SUBJECTS
) -> Iterator[tuple[Check, list[Diagnostic]]]:
    """Run the checks of these costs and subjects; yield each with its findings.

    Those of verl are left out if packages are missing that it imports.
    """
    for (cost, subject), checks in CHECKS.items():
        if cost not in costs or subject not in subjects:
            continue
        if cost == "verl" and any(packages.packages_of_a_run(run)):
            continue
        for check in checks:
            yield check, list(check(run))


def refuse(
    run: RunConfig, costs: Collection[Cost] = CHEAP_OR_VERL, subjects: Collection[Subject] = SUBJECTS
) -> list[Diagnostic]:
    """Run these checks, cost by cost while there is no error, and return the warnings.

    Raises Refused with all errors of the first cost that has some.
    """
    warnings: list[Diagnostic] = []
    for cost in costs:
        diagnostics = [diagnostic for _, findings in ask(run, [cost], subjects) for diagnostic in findings]
        if errors := [diagnostic for diagnostic in diagnostics if diagnostic.level == "error"]:
            raise Refused(errors)
        warnings += [diagnostic for diagnostic in diagnostics if diagnostic.level == "warning"]
    return warnings
