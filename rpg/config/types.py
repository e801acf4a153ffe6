"""Types and ranges of single settings, without importing verl; everything after it may rely on them.

Types of verl's settings come from verl's default configuration, ranges from settings.py.
"""

import difflib
import importlib.util
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from rpg.config.check import check
from rpg.config.run_config import RunConfig
from rpg.config.settings import MODEL, RANGES, RAY, ROLLOUT, STRICT
from rpg.data.diagnostics import ABSENT, Diagnostic

# keys that verl reads although neither its default configuration nor a dataclass has them
ALSO_READ = (
    "trainer.v1.sampler.sync_refill_failed_groups",
    "trainer.v1.sampler.custom_sampler", "reward.custom_reward_function.reward_kwargs",
    "reward.reward_kwargs", "reward.timeout",
    f"{ROLLOUT}.moe_load_balance_metrics_interval", f"{ROLLOUT}.enable_sleep_mode", f"{MODEL}.custom_chat_template",
)  # fmt: skip
SECTIONS = sorted({key.rsplit(".", depth)[0] for key in RANGES for depth in range(1, key.count(".") + 1)})


@check("types and ranges", "every setting is read by verl or the plugin, has the type of its default and is in range")
def types(run: RunConfig) -> Iterator[Diagnostic]:
    """Checks types, ranges, missing keys and keys that nothing reads; verl_validation.py checks the rest."""
    for section in SECTIONS:
        value = run.get(section, ABSENT)
        if not isinstance(value, dict) and value is not None and value is not ABSENT:
            yield _no_mapping(section, value)
    for key, adapter in RANGES.items():
        if (value := run.get(key, ABSENT)) is not ABSENT:
            yield from faults(adapter, key, value)
    yield from _section("", run.config, verl_defaults())


@cache
def verl_defaults() -> dict[str, Any]:
    """Return verl's default configuration, as verl ships it, with ??? for our settings.

    Interpolations are text. Does not import verl.
    """
    from omegaconf import OmegaConf

    spec = importlib.util.find_spec("verl")
    assert spec is not None
    assert spec.submodule_search_locations
    made = OmegaConf.load(Path(spec.submodule_search_locations[0]) / "trainer/config/_generated_ppo_trainer.yaml")
    for key in RANGES:
        if key.startswith("rpg."):
            OmegaConf.update(made, key, "???", force_add=True)
    # the generated file lacks the key that chose the groups
    return {"model_engine": "dp", **OmegaConf.to_container(made)}  # type: ignore[dict-item]


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return "did you mean X?" for the nearest known name, or ""."""
    near = difflib.get_close_matches(name, list(known), n=1)
    return f"did you mean {near[0]}?" if near else ""


def faults(adapter: TypeAdapter[Any], key: str, value: Any) -> Iterator[Diagnostic]:
    """Yield pydantic's errors for the value of a key."""
    try:
        adapter.validate_python(value)
    except ValidationError as error:
        messages = (
            detail["msg"].removeprefix("Value error, ").replace("Input should", "must", 1) for detail in error.errors()
        )
        yield Diagnostic(key, repr(value) if isinstance(value, str) else value, " or ".join(dict.fromkeys(messages)))


def _section(section: str, settings: dict[str, Any], defaults: dict[str, Any]) -> Iterator[Diagnostic]:
    """Compare a section with verl's; one with a _target_ may have more keys, and null if its dataclass allows it."""
    dataclass = "_target_" in defaults
    for name, default in defaults.items():
        if name not in settings and default is not None:
            key = f"{section}.{name}".lstrip(".")
            yield Diagnostic(key, ABSENT, "is missing", f"remove '~{key}' from the overrides")
    for name, value in settings.items():
        key = f"{section}.{name}".lstrip(".")
        default = defaults.get(name, ABSENT)
        if default is ABSENT:
            if not dataclass and not is_read(key):
                yield Diagnostic(key, value, "no such setting", did_you_mean(name, defaults))
        elif isinstance(default, dict) and default and isinstance(value, dict):
            yield from _section(key, value, default)
        elif isinstance(default, dict) and default and value is None:
            yield _no_mapping(key, value)
        elif key in RANGES or key in SECTIONS or (value is None and dataclass) or _says_no_type(default):
            continue
        else:
            yield from faults(_like(type(default), dataclass and default != {}), key, value)


def _says_no_type(default: Any) -> bool:
    """Return whether a default has no type: null, a required key, or an interpolation of another key."""
    return default in (None, "???") or (isinstance(default, str) and "${" in default)


def _no_mapping(section: str, value: Any) -> Diagnostic:
    return Diagnostic(section, value, "must be a mapping", f"set its keys one by one, as {section}.KEY=VALUE")


@cache
def _like(kind: type, dataclass: bool) -> TypeAdapter[Any]:
    """Return the type of a default; an integer default of a dataclass may also be a float."""
    return TypeAdapter({int: float if dataclass else int, str: str | None, dict: dict | None}.get(kind, kind),
                       config=STRICT)  # fmt: skip


def is_read(key: str) -> bool:
    """Return whether a key without a default in verl is read."""
    return key in ALSO_READ or key.startswith(f"{RAY}.")
