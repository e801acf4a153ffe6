"""RunConfig: the one configuration of a run, which checks, fingerprint, dry run, job and trainer read.

Its constructor checks types and ranges, so that an invalid one cannot exist. Does not import verl.
"""

import copy
import importlib.util
import os
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Literal

from pydantic import TypeAdapter, ValidationError

from rpg.config.keys import KEYS, RANGES, RAY, STRICT, Loggers, Settings
from rpg.diagnostics import ABSENT, Diagnostic, Refused, did_you_mean
from rpg.dotted import value_at
from rpg.files.integrity import Choice, newest_complete
from rpg.verl_plugin import version

SECTIONS = sorted({key.rsplit(".", depth)[0] for key in RANGES for depth in range(1, key.count(".") + 1)})


def logs_to(loggers: Loggers, name: str) -> bool:
    """Return whether a logger is among the values of trainer.logger."""
    return name in ([loggers] if isinstance(loggers, str) else loggers)


@dataclass(frozen=True)
class RunConfig:
    """A run's resolved configuration, whose types and ranges are valid.

    Attributes:
        config: nested dictionaries of YAML types; not to be changed.
        choice: the result of newest_complete for trainer.resume_mode=auto, if `freeze` has looked.

    Raises:
        Refused: a setting that nothing reads, or of a type or range that verl or the plugin does not take.
    """

    config: dict[str, Any]
    choice: Choice | None = None

    def __post_init__(self) -> None:
        if errors := list(type_errors(self.config)):
            raise Refused(errors)

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value at a dotted key, or `default` if there is none."""
        return value_at(self.config, key, default)

    @cached_property
    def settings(self) -> Settings:
        """The typed view."""
        return Settings.of(self.config)

    def copy(self) -> dict[str, Any]:
        """Return a copy of the configuration."""
        return copy.deepcopy(self.config)

    def yaml(self) -> str:
        """Return the configuration as YAML."""
        from omegaconf import OmegaConf

        return OmegaConf.to_yaml(OmegaConf.create(self.config))

    @property
    def cluster(self) -> bool:
        """Whether the run uses the devices of a running Ray cluster."""
        return bool(os.environ.get("RAY_ADDRESS"))

    @property
    def logical(self) -> bool:
        """Whether its GPUs are logical resources of Ray: on a CPU, or with num_gpus set."""
        return self.settings.device == "cpu" or self.settings.ray_gpus is not None

    @property
    def model(self) -> Path:
        """The model's path as a local directory, which need not exist."""
        return Path(str(self.settings.model)).expanduser()

    @property
    def directory(self) -> Path:
        """The run's directory."""
        return Path(self.settings.directory).expanduser()

    @property
    def resumes_by_choice(self) -> bool:
        """Whether the run resumes from the newest complete checkpoint of its directory."""
        return self.choice is not None or self.settings.resume_mode == "auto"

    @cached_property
    def newest_checkpoint(self) -> Choice:
        """The checkpoint that trainer.resume_mode=auto resumes from; cached, because all of its bytes are read."""
        return self.choice or newest_complete(self.directory)

    def files(self, split: Literal["train", "val"]) -> list[str]:
        """Return the configured parquet files of a split."""
        value = self.settings.train_files if split == "train" else self.settings.val_files
        return [value] if isinstance(value, str) else list(value or [])


def type_errors(config: dict[str, Any]) -> Iterator[Diagnostic]:
    """Yield wrong types, values out of range, missing keys and keys that nothing reads.

    Types of verl's settings are those of its default configuration, ranges those of keys.py; checks/verl.py asks verl's
    dataclasses for the rest.
    """
    for section in SECTIONS:
        value = value_at(config, section, ABSENT)
        if not isinstance(value, dict) and value is not None and value is not ABSENT:
            yield _no_mapping(section, value)
    for key, adapter in RANGES.items():
        if (value := value_at(config, key, ABSENT)) is not ABSENT:
            yield from faults(adapter, key, value)
    yield from _section("", config, verl_defaults())


def verl_config_dir() -> Path:
    """Return the folder of verl's configuration, without an import of verl. Raises ModuleNotFoundError without it."""
    spec = importlib.util.find_spec("verl")
    if spec is None or not spec.submodule_search_locations:
        raise ModuleNotFoundError(f"verl is not installed; run bash scripts/setup.sh or {version.INSTALL}")
    return Path(spec.submodule_search_locations[0]) / "trainer/config"


@cache
def verl_defaults() -> dict[str, Any]:
    """Return verl's default configuration, as verl ships it, with ??? for our settings.

    Interpolations are text. Does not import verl.
    """
    from omegaconf import OmegaConf

    made = OmegaConf.load(verl_config_dir() / "_generated_ppo_trainer.yaml")
    for key in RANGES:
        if key.startswith("rpg."):
            OmegaConf.update(made, key, "???", force_add=True)
    # the generated file lacks the key that chose the groups
    return {"model_engine": "dp", **OmegaConf.to_container(made)}  # type: ignore[dict-item]


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
    """Return whether a key without a default in verl is read: it has a row, or is an argument of ray.init."""
    return key in KEYS.values() or key.startswith(f"{RAY}.")
