"""Checks by verl itself: its registries, the types of its dataclasses, its own validation.

They import verl, which takes seconds, and therefore run last.
"""

import contextlib
import dataclasses
import importlib
import io
import types
import typing
import warnings
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import TypeAdapter

from rpg.config.keys import ACTOR, KEYS, RANGES, ROLLOUT, SEPARATE, STRICT
from rpg.config.run_config import RunConfig, faults, is_read, verl_defaults
from rpg.config.user_code import SOCKETS
from rpg.diagnostics import ABSENT, Diagnostic, Findings, did_you_mean

STANDALONE = 2  # CPUs of a GPU's bundle in verl's RolloutReplica.init_standalone


def registered(run: RunConfig) -> Findings:
    """Loss, estimator, reward manager and checkpoint engine are known to verl.

    Names must be registered by verl, the plugin, or the user's external_lib, which is imported here as in a run.

    verl registers the checkpoint engines whose packages are installed.
    """
    from verl.checkpoint_engine import CheckpointEngineRegistry
    from verl.experimental.reward_loop.reward_manager import registry as managers
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, POLICY_LOSS_REGISTRY

    from rpg.verl_plugin import external, register

    s = run.settings
    for name in s.libraries or []:
        try:
            external.load(name)
        except (Exception, SystemExit) as error:  # noqa: BLE001  # whatever a user's file raises
            yield Diagnostic(
                KEYS["external_lib"], name, f"cannot be imported: {type(error).__name__}: {error}", "correct it"
            )
            return
    try:
        register()
    except ValueError as error:
        yield Diagnostic("rpg.verl_plugin", ABSENT, str(error), "remove the other package that registers it")
        return
    registries: dict[str, Any] = {KEYS["loss"]: POLICY_LOSS_REGISTRY, KEYS["estimator"]: ADV_ESTIMATOR_REGISTRY}
    if s.manager_source in (None, "register"):
        registries[KEYS["manager"]] = managers.REWARD_MANAGER
    for key, registry in registries.items():
        name, known = run.get(key), sorted(map(str, registry))
        if name not in registry:
            remedy = f"{did_you_mean(name, known)} known: {', '.join(known)}".strip()
            yield Diagnostic(key, name, "is not registered with verl", remedy)
    if s.schedule == SEPARATE and s.transfer_module in (None, SOCKETS):
        if s.transfer_module:
            importlib.import_module(s.transfer_module)
        try:
            CheckpointEngineRegistry.get(s.transfer_engine)
        except ValueError as error:  # the message names the missing package
            yield s.error("transfer_engine", str(error), "nccl needs cupy (requirement.txt)")


def cpus(run: RunConfig) -> Findings:
    """Ray has the CPUs that the run's actors hold; otherwise the start waits for them without end.

    TransferQueue's controller and each storage unit hold one, verl's trainer three a GPU, separate rollouts two a GPU.
    With 8 units and one GPU, 11 CPUs wait and 12 run; with 2 units, 5 wait and 6 run. Skipped on a cluster, whose
    free CPUs change.
    """
    from ray._private.utils import get_num_cpus
    from verl.single_controller.ray import ResourcePoolManager

    s = run.settings
    if run.cluster:
        return
    need = 1 + s.storage_units + ResourcePoolManager.max_colocate_count * s.gpus + STANDALONE * s.rollout_devices
    present = s.ray_cpus or int(get_num_cpus())
    if present < need:
        message = (
            f"Ray has {present} CPUs; {s.gpus + s.rollout_devices} GPUs and {s.shown('storage_units')} need {need}"
        )
        yield s.error("ray_cpus", message, f"set it to {need} (a logical number), or use a larger machine")


def rejection(run: RunConfig) -> Findings:
    """verl can parse rollout_rs and its thresholds.

    verl would parse them only after the first batch's rollouts.
    """
    from verl.trainer.ppo.rollout_corr_helper import SUPPORTED_ROLLOUT_RS_OPTIONS, _parse_rollout_rs_thresholds

    s = run.settings
    named, limits = s.rejection, s.rejection_threshold
    if named is None or limits is None:
        return
    criteria = [name.strip() for name in named.split(",") if name.strip()]
    if unknown := [name for name in criteria or [named] if name not in SUPPORTED_ROLLOUT_RS_OPTIONS]:
        message = f"names {unknown[0]}, and verl's criteria are {', '.join(sorted(SUPPORTED_ROLLOUT_RS_OPTIONS))}"
        yield s.error("rejection", message, did_you_mean(unknown[0], SUPPORTED_ROLLOUT_RS_OPTIONS))
        return
    try:
        _parse_rollout_rs_thresholds(criteria, limits)
    except (ValueError, TypeError, ZeroDivisionError) as error:
        yield s.error("rejection_threshold", str(error))


def verl_types(run: RunConfig) -> Findings:
    """Settings of verl's dataclasses are fields of them and have their types.

    Finds keys that no dataclass field reads, and wrong types of fields without a default.
    """
    yield from _section("", run.config, verl_defaults())


def _section(section: str, settings: dict[str, Any], defaults: Any) -> Findings:
    defaults = defaults if isinstance(defaults, dict) else {}
    owner = _dataclass(settings)
    if settings.get("_target_") and owner is None and defaults.get("_target_"):
        remedy = f"verl's is {defaults['_target_']}"
        yield Diagnostic(f"{section}._target_", settings["_target_"], "no such dataclass", remedy)
        return
    fields = typing.get_type_hints(owner) if owner else {}
    for name, value in settings.items():
        key = f"{section}.{name}".lstrip(".")
        if owner and name not in (*fields, *defaults, "_target_") and not is_read(key):
            remedy = did_you_mean(name, fields) or f"remove it ('~{key}')"
            yield Diagnostic(key, value, f"verl's {owner.__name__} has no such setting", remedy)
        elif isinstance(value, dict):
            yield from _section(key, value, defaults.get(name))
        elif name not in fields or key in RANGES or not _simple(fields[name]):
            continue
        elif value == defaults.get(name, ABSENT) or (value is None and "${" in str(defaults.get(name))):
            continue  # some of verl's own defaults do not have their field's type
        else:
            yield from faults(TypeAdapter(fields[name], config=STRICT), key, value)


def _dataclass(section: dict[str, Any]) -> type | None:
    """Return the dataclass that verl builds from a section, or None."""
    module, _, name = str(section.get("_target_", "")).rpartition(".")
    try:
        declared = getattr(importlib.import_module(module), name, None) if module else None
    except ImportError:
        return None
    return declared if dataclasses.is_dataclass(declared) else None  # type: ignore[return-value]


def _simple(annotation: Any) -> bool:
    """Return whether an annotation consists of builtin types, with which a YAML value can be compared."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return True
    if origin in (Union, types.UnionType, list, dict, tuple):
        return all(_simple(part) for part in inner if part is not ...)
    return annotation in (int, float, bool, str, list, dict, tuple, type(None), Any)


def verl_validation(run: RunConfig) -> Findings:
    """verl builds its dataclasses from the configuration, and its validate_config passes.

    Reports verl's message under the key of its section.
    """
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    refusals = (HydraException, OmegaConfBaseException, AssertionError, ValueError, TypeError, LookupError)
    refused = False
    for section in (ACTOR, ROLLOUT):
        try:
            omega_conf_to_dataclass(OmegaConf.create(run.get(section)))  # type: ignore[arg-type]
        except refusals as error:
            refused = True
            yield Diagnostic(section, ABSENT, _root(error))
    if refused:
        return
    config, printed = OmegaConf.create(run.config), io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # verl warns that there is no critic
            validate_config(config, need_reference_policy(config), need_critic(config))
    except refusals as error:
        yield Diagnostic("verl's validate_config", ABSENT, _root(error))
    for line in printed.getvalue().splitlines():
        if line.startswith(("WARNING:", "NOTICE:")):  # excludes vLLM's log lines, in which a date follows WARNING
            yield Diagnostic("verl's validate_config", ABSENT, line, level="warning")


def _root(error: BaseException) -> str:
    """Return the innermost message of an exception, on one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split()) or type(error).__name__
