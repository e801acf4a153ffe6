"""All checks of a run, in the order in which they run. They do not start Ray."""

from collections.abc import Collection, Iterator

from rpg.config import (
    budgets,
    external_lib,
    gpu_machine,
    inputs,
    installed,
    machine,
    reward,
    rules,
    secrets,
    types,
    verl_validation,
)
from rpg.config.check import CHEAP_OR_VERL, SUBJECTS, Check, Cost, Refused, Subject
from rpg.config.run_config import RunConfig
from rpg.data.diagnostics import Diagnostic

FIRST: tuple[Check, ...] = (secrets.secrets, types.types)  # the others rely on the types
THEN: tuple[Check, ...] = (
    rules.mini_batches,
    rules.ranks,
    rules.rollout_replicas,
    rules.rollout_sockets,
    rules.token_budgets,
    rules.overlong_shaping,
    rules.dynamic_sampling,
    rules.resumption,
    rules.saving,
    rules.metrics_file,
    rules.validation,
    rules.loss_name,
    rules.estimator_name,
    rules.total_mass,
    rules.clip_of_the_loss,
    rules.kl_counted_once,
    rules.beta_reaches_the_loss,
    rules.scope_of_the_kl,
    rules.reference,
    rules.loss_sees_the_reference,
    rules.bounds_of_the_loss,
    rules.aggregation_of_the_loss,
    rules.lora,
    rules.schedule_free,
    rules.pi_old,
    rules.rejection_sampling,
    rules.asynchronous_pi_old,
    rules.staleness,
    rules.separate_rollouts,
    reward.judge,
    reward.reward_function,
    reward.reward_trial,
    external_lib.external_library,
    installed.of_a_run,
    installed.gpu_builds,
    installed.flash_attention,
    installed.cross_entropy,
    installed.schedule_free,
    machine.environment_variables,
    machine.verl_version,
    gpu_machine.gpu_driver,
    gpu_machine.build_tools,
    machine.devices,
    gpu_machine.shared_memory,
    gpu_machine.limits,
    machine.ports,
    machine.directories,
    machine.temporary_files,
    machine.checkpoint,
    machine.wandb,
    inputs.data_files,
    inputs.files_fit,
    inputs.data_sources,
    inputs.enough_rows,
    inputs.prompts_fit,
    inputs.model_directory,
    inputs.rows,
    verl_validation.registered,
    verl_validation.rejection,
    verl_validation.verl_types,
    verl_validation.verl_validation,
    budgets.memory,
    budgets.context,
    budgets.weight_bucket,
    budgets.disk,
)
CHECKS = (*FIRST, *THEN)
NEEDED_BY_VERL = (installed.of_a_run, machine.verl_version)  # without these, verl cannot be asked


def ask(
    run: RunConfig, costs: Collection[Cost], subjects: Collection[Subject] = SUBJECTS
) -> Iterator[tuple[Check, list[Diagnostic]]]:
    """Run the checks of these costs and subjects; yield each with its findings. Ends after wrong types."""
    checks = [check for check in CHECKS if check.cost in costs and check.subject in subjects]
    unusable: set[Check] = set()  # checks with errors
    for check in checks:
        if check not in FIRST and unusable & {*FIRST}:
            return
        if check.cost == "verl" and unusable & {*NEEDED_BY_VERL}:
            continue
        diagnostics = list(check(run))
        if any(diagnostic.level == "error" for diagnostic in diagnostics):
            unusable.add(check)
        yield check, diagnostics


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
