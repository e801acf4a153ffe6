"""Types of a configuration: our section's are its model's, verl's those of its defaults or of verl_keys.TYPES."""

import importlib.util
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from rpg.config.section import Section
from rpg.config.verl_keys import TYPES
from rpg.diagnostics import ABSENT, Diagnostic, did_you_mean
from rpg.dotted import leaves, value_at
from rpg.verl_plugin import version


def errors(config: dict[str, Any]) -> Iterator[Diagnostic]:
    """Yield wrong types, values out of range, missing keys and keys that nothing reads."""
    yield from faults(TypeAdapter(Section), "rpg", config.get("rpg"))
    for key, adapter in TYPES.items():
        if (value := value_at(config, key)) is not None or value_at(verl_defaults(), key) is not None:
            yield from faults(adapter, key, value)
    yield from _section("", {key: value for key, value in config.items() if key != "rpg"}, verl_defaults())


def faults(adapter: TypeAdapter[Any], key: str, value: Any) -> Iterator[Diagnostic]:
    """Yield pydantic's errors for the value of a key, one for each key below it."""
    try:
        adapter.validate_python(value)
    except ValidationError as error:
        messages: dict[str, list[str]] = {}
        for detail in error.errors():
            # of a union or list, pydantic names the member as well
            path = [key, *map(str, detail["loc"])] if isinstance(value, dict) else [key]
            text = detail["msg"].removeprefix("Value error, ").replace("Input should", "must", 1)
            messages.setdefault(".".join(path), []).append(text)
        for name, texts in messages.items():
            found = value if name == key else value_at(value, name.removeprefix(f"{key}."))
            yield Diagnostic(name, repr(found) if isinstance(found, str) else found, " or ".join(dict.fromkeys(texts)))


def verl_config_dir() -> Path:
    """Return the folder of verl's configuration, without an import of verl. Raises ModuleNotFoundError without it."""
    spec = importlib.util.find_spec("verl")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"verl is not installed; run bash scripts/setup.sh or {version.INSTALL}")
    return Path(spec.submodule_search_locations[0]) / "trainer/config"


@cache
def verl_defaults() -> dict[str, Any]:
    """Return verl's default configuration, as verl ships it. Interpolations are text. Does not import verl."""
    from omegaconf import OmegaConf

    made = OmegaConf.to_container(OmegaConf.load(verl_config_dir() / "_generated_ppo_trainer.yaml"))
    return {"model_engine": "dp", **made}  # type: ignore[dict-item]  # the file lacks the key that chose the groups


def non_defaults(config: dict[str, Any], *sections: str) -> Iterator[str]:
    """Yield the keys at or below these whose values are not verl's defaults."""
    for key, value in leaves({section: value_at(config, section) for section in sections}):
        if value != value_at(verl_defaults(), key):
            yield key


def _section(section: str, settings: dict[str, Any], defaults: dict[str, Any]) -> Iterator[Diagnostic]:
    """Compare a section with verl's defaults. A dataclass may have keys that verl's YAML lacks, and null.

    verl builds the dataclasses of actor_rollout_ref, and its workers refuse a key that a dataclass lacks.
    """
    dataclass = "_target_" in defaults and section.startswith("actor_rollout_ref.")
    for name, value in settings.items():
        key, default = f"{section}.{name}".lstrip("."), defaults.get(name, ABSENT)
        if key in TYPES:
            continue
        if default is ABSENT:
            if not dataclass:
                yield Diagnostic(key, value, "no such setting", did_you_mean(name, defaults))
        elif isinstance(value, dict) and isinstance(default, dict) and default:
            yield from _section(key, value, default)
        elif not (value is None and dataclass) and not _says_no_type(default):
            positive = isinstance(default, int | float) and default > 0 and not isinstance(default, bool)
            yield from faults(_like(type(default), dataclass and default != {}, positive), key, value)


def _says_no_type(default: Any) -> bool:
    """Return whether a default has no type: null, a required key, or an interpolation of another key."""
    return default in (None, "???") or (isinstance(default, str) and "${" in default)


@cache
def _like(kind: type, dataclass: bool, positive: bool) -> TypeAdapter[Any]:
    """Return the type of a default; an integer of a dataclass may also be a float. A positive one is never negative."""
    kinds: dict[type, Any] = {int: float if dataclass else int, str: str | None, dict: dict | None}
    wanted: Any = Annotated[kinds.get(kind, kind), Field(ge=0)] if positive else kinds.get(kind, kind)
    return TypeAdapter(wanted, config={"strict": True, "allow_inf_nan": False})
