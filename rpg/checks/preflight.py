"""All checks of a run, in the stages and the order in which they run. They do not start Ray.

What holds before, compose.py and the constructor of RunConfig ensure: verl's version, decisions, types and ranges. A
check is added only if without it a result would be silently wrong, or hours of GPUs lost.
"""

import sys
from collections.abc import Callable

from rich.console import Console
from rich.status import Status

from rpg.checks import checkpoint, data, loss, machine, model, off_policy, settings, user, verl
from rpg.config.run_config import RunConfig
from rpg.diagnostics import ABSENT, Diagnostic, Findings, Refused

Check = Callable[[RunConfig], Findings]

# of the configuration alone, in milliseconds: also before a dry run, and where a run is submitted to a cluster
SETTINGS: tuple[Check, ...] = (
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
    off_policy.recomputed_pi_old,
    off_policy.stale_responses,
    off_policy.separate_rollouts,
    off_policy.sampled_distribution,
)
# of files and machine, in a second
PLACE: tuple[Check, ...] = (
    data.data_files,
    model.model_directory,
    machine.devices,
    machine.shared_memory,
    machine.disk,
)
# in seconds to minutes: they import verl or transformers, call the reward function, or read a checkpoint
SLOW: tuple[Check, ...] = (
    verl.registered,
    verl.cpus,
    model.trained_as_it_is,
    data.prompts_fit,
    user.truths,
    user.reward_trial,
    checkpoint.checkpoint,
)
CHECKS = (*SETTINGS, *PLACE, *SLOW)


def working(what: str) -> Status:
    """Return a context in which a terminal shows what is being checked."""
    return Console(stderr=True).status(f"checking: {what}")


def findings(check: Check, run: RunConfig) -> list[Diagnostic]:
    """Run a check; a package of verl's extras that is missing is its finding."""
    try:
        with working(label(check)):
            return list(check(run))
    except ImportError as error:
        remedy = "use the environment of scripts/setup_gpu.sh, or pip install 'verl[vllm]'"
        return [Diagnostic("environment", ABSENT, f"{error}, in {sys.prefix}", remedy)]


def label(check: Check) -> str:
    """Return a check's name for a line of text."""
    return check.__name__.replace("_", " ")


def refuse(run: RunConfig, checks: tuple[Check, ...]) -> list[Diagnostic]:
    """Run these checks and return the warnings. Raises Refused with all errors."""
    found = [diagnostic for check in checks for diagnostic in findings(check, run)]
    if errors := [diagnostic for diagnostic in found if diagnostic.level == "error"]:
        raise Refused(errors)
    return found
