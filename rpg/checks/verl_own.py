"""What verl itself says of a configuration: its registries, the types of its dataclasses, its own validation.

verl is imported, which takes seconds, so these come after all that need it not.
"""

import contextlib
import dataclasses
import difflib
import importlib
import inspect
import io
import types
import typing
import warnings
from collections.abc import Iterator
from functools import cache
from typing import Any, Literal, Union, get_args, get_origin

from rpg.checks.finding import ABSENT, Finding, Run, check
from rpg.checks.objective import ESTIMATOR, LOSS, REFERENCE
from rpg.checks.off_policy import ENGINE, MODE
from rpg.checks.reward import BACKEND, SOCKETS
from rpg.checks.schema import SCHEMA, Rule

# the sections that verl makes dataclasses of as they stand; the model's also loads the tokenizer
MADE = ("actor_rollout_ref.actor.", "actor_rollout_ref.rollout.", "actor_rollout_ref.model.")
SIMPLE = (int, float, bool, str, list, dict, tuple, type(None), Any)


@check("registered with verl", "loss and estimator are registered with verl, the plugin's and others", LOSS, ESTIMATOR,
       cost="verl")  # fmt: skip
def registered(run: Run) -> Iterator[Finding]:
    """Names are verl's own, the plugin's, or those of an external library, which only the workers import."""
    from verl.trainer.ppo.core_algos import ADV_ESTIMATOR_REGISTRY, POLICY_LOSS_REGISTRY

    from rpg.verl_plugin import register

    try:
        register()
    except ValueError as error:
        yield Finding("rpg.verl_plugin", ABSENT, str(error), "take the other package that registers it out")
        return
    for key, registry in ((LOSS, POLICY_LOSS_REGISTRY), (ESTIMATOR, ADV_ESTIMATOR_REGISTRY)):
        name, known = run.get(key), sorted(map(str, registry))
        if name not in registry:
            near = difflib.get_close_matches(name, known, n=1)
            wrong = "is not registered with verl" + (f"; did you mean {near[0]!r}?" if near else "")
            yield Finding(key, name, wrong, f"known: {', '.join(known)}")


@check("loss sees the reference", "the loss takes ref_log_prob where pi_ref is a model of its own", LOSS,
       f"{REFERENCE}.mode", cost="verl")  # fmt: skip
def loss_sees_the_reference(run: Run) -> Iterator[Finding]:
    """verl's own losses do not."""
    from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY

    loss, mode = POLICY_LOSS_REGISTRY.get(run.get(LOSS)), run.get(f"{REFERENCE}.mode")
    if mode != "old" and loss is not None and "ref_log_prob" not in inspect.signature(loss).parameters:
        wrong = f"needs a loss that sees the reference, and {LOSS}={run.get(LOSS)} does not"
        yield Finding(f"{REFERENCE}.mode", mode, wrong, f"choose an rpg loss, or set {REFERENCE}.mode=old")


@check("reward manager", "the reward manager is one of verl's", "reward.reward_manager.name", cost="verl")
def reward_manager(run: Run) -> Iterator[Finding]:
    """Those that verl registers; one from a module of its own (source: importlib) is the user's."""
    from verl.experimental.reward_loop.reward_manager import registry

    name, known = run.get("reward.reward_manager.name"), sorted(registry.REWARD_MANAGER)
    if run.get("reward.reward_manager.source", "register") == "register" and name not in known:
        yield Finding(
            "reward.reward_manager.name", name, "verl has no such reward manager", f"known: {', '.join(known)}"
        )


@check("checkpoint engine", "what takes the weights to rollouts with GPUs of their own is registered with verl",
       MODE, ENGINE, BACKEND, cost="verl", subject="machine")  # fmt: skip
def checkpoint_engine(run: Run) -> Iterator[Finding]:
    """verl registers those whose packages are there; what a module of the user's registers is not known here."""
    from verl.checkpoint_engine import CheckpointEngineRegistry

    if run.get(MODE) != "separate_async" or run.get(BACKEND) not in (None, SOCKETS):
        return
    if run.get(BACKEND):
        importlib.import_module(run.get(BACKEND))
    try:
        CheckpointEngineRegistry.get(run.get(ENGINE))
    except ValueError as error:
        yield Finding(ENGINE, run.get(ENGINE), f"verl has no such checkpoint engine here ({error})")


@check("arguments of ray.init", "ray_kwargs.ray_init holds arguments of ray.init", "ray_kwargs.ray_init", cost="verl")
def ray_arguments(run: Run) -> Iterator[Finding]:
    """Ray refuses others when it is started."""
    import ray

    known = inspect.signature(ray.init).parameters
    for name, value in run.get("ray_kwargs.ray_init").items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            wrong = "ray.init has no such argument" + (f"; did you mean {near[0]}?" if near else "")
            yield Finding(f"ray_kwargs.ray_init.{name}", value, wrong, f"remove it ('~ray_kwargs.ray_init.{name}')")


@cache
def defaults() -> dict[str, Any]:
    """verl's own configuration, as its trainer would be started without an override."""
    from hydra import compose, initialize_config_module
    from omegaconf import OmegaConf

    with initialize_config_module("verl.trainer.config", version_base=None):
        return OmegaConf.to_container(compose("ppo_trainer"), resolve=True, throw_on_missing=False)  # type: ignore[return-value]


def _class(section: dict[str, Any]) -> type | None:
    """The dataclass that verl makes of a section; None where it makes none."""
    module, _, name = str(section.get("_target_", "")).rpartition(".")
    try:
        found = getattr(importlib.import_module(module), name, None) if module else None
    except ImportError:
        return None
    return found if dataclasses.is_dataclass(found) else None  # type: ignore[return-value]


def _simple(annotation: Any) -> bool:
    """Whether an annotation is made of Python's own types, which a value from YAML can be compared with."""
    origin, inner = get_origin(annotation), get_args(annotation)
    if origin is Literal:
        return True
    if origin in (Union, types.UnionType, list, dict, tuple):
        return all(_simple(part) for part in inner if part is not ...)
    return annotation in SIMPLE


@check("verl's types", "every other key holds what verl's dataclass, or verl's default, says it holds", cost="verl")
def verl_types(run: Run) -> Iterator[Finding]:
    """Keys outside the schema: unknown fields of a dataclass, wrong types, numbers that are none."""
    yield from _section("", run.config, defaults())


def _section(key: str, held: dict[str, Any], default: Any) -> Iterator[Finding]:
    owner = _class(held)
    if held.get("_target_") and owner is None and isinstance(default, dict) and default.get("_target_"):
        yield Finding(f"{key}._target_", held["_target_"], "no such dataclass", f"verl's is {default['_target_']}")
        return
    fields = {field.name: field for field in dataclasses.fields(owner)} if owner else {}
    hints = typing.get_type_hints(owner) if owner else {}
    for name, value in held.items():
        path = f"{key}.{name}" if key else str(name)
        usual = default.get(name, ABSENT) if isinstance(default, dict) else ABSENT
        if owner and name not in (*fields, "_target_") and usual is ABSENT and path.startswith(MADE):
            near = difflib.get_close_matches(name, fields, n=1)
            wrong = f"verl's {owner.__name__} has no such setting" + (f"; did you mean {near[0]}?" if near else "")
            yield Finding(path, value, wrong, f"remove it ('~{path}')")
        elif path in SCHEMA or value == usual:
            continue
        elif isinstance(value, dict) and (isinstance(usual, dict) or usual is ABSENT):
            yield from _section(path, value, usual)
        elif wanted := _wanted(hints.get(name), usual, value):
            yield Finding(path, value, f"must be {wanted}, as in verl")


def _wanted(annotation: Any, usual: Any, value: Any) -> str | None:
    """What a value should be and is not, by its annotation, else by verl's default; None where it is."""
    if annotation is not None and _simple(annotation):
        text = annotation.__name__ if isinstance(annotation, type) else str(annotation).replace("typing.", "")
        return None if Rule(annotation, "").accepts(value) else text
    if isinstance(usual, bool):
        return None if isinstance(value, bool) else "true or false"
    if isinstance(usual, (int, float)):
        kind = int if isinstance(usual, int) else float
        return None if Rule(kind, "").accepts(value) else "a whole number" if kind is int else "a finite number"
    if isinstance(usual, str):
        return None if isinstance(value, str) or value is None else "text"
    if isinstance(usual, dict):
        return "a mapping"
    return None


@check("verl's own validation", "verl makes its dataclasses of the configuration, and its validate_config passes",
       *SCHEMA, cost="verl")  # fmt: skip
def verl_validation(run: Run) -> Iterator[Finding]:
    """verl's words, under the key of the section that they are about."""
    from hydra.errors import HydraException
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import omega_conf_to_dataclass, validate_config

    refusals = (HydraException, OmegaConfBaseException, AssertionError, ValueError, TypeError, LookupError)
    found = False
    for section in ("actor_rollout_ref.actor", "actor_rollout_ref.rollout"):
        try:
            omega_conf_to_dataclass(OmegaConf.create(run.get(section)))  # type: ignore[arg-type]
        except refusals as error:
            found = True
            yield Finding(section, ABSENT, _root(error))
    if found:
        return
    config, said = OmegaConf.create(run.config), io.StringIO()
    try:
        with contextlib.redirect_stdout(said), warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # that there is no critic
            validate_config(config, need_reference_policy(config), need_critic(config))
    except refusals as error:
        yield Finding("verl's validate_config", ABSENT, _root(error))
    for line in said.getvalue().splitlines():
        if line.startswith(("WARNING", "NOTICE")):
            yield Finding("verl's validate_config", ABSENT, line, level="warning")


def _root(error: BaseException) -> str:
    """The innermost message of a refusal, on one line."""
    while error.__cause__ is not None:
        error = error.__cause__
    return " ".join(str(error).split()) or type(error).__name__
