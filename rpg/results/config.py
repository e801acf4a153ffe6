"""Files of settings, and what results read of them; errors and notes of the result commands."""

import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml

# YAML's types are made by Python's constructors, whose errors come through.
OF_YAML_TYPES = (ValueError, LookupError, AttributeError, TypeError, ArithmeticError, RecursionError)


class ResultsError(ValueError):
    """Something that cannot be read or shown; the message names it and the remedy."""


class LeftOut(str):
    """A note about something that could not be used; commands exit with 1 where there is one."""


def about(name: str, note: str) -> str:
    """The note with its subject in front; a LeftOut stays one."""
    return type(note)(f"{name}: {note}")


def exit_code(notes: Iterable[str]) -> int:
    """0 where everything given was used, 1 where something was left out (docs/results.md)."""
    return int(any(isinstance(note, LeftOut) for note in notes))


def has_file(path: Path) -> bool:
    """Whether a file is there. Raises ResultsError where something else has its name."""
    if not path.is_file() and os.path.lexists(path):
        raise ResultsError(f"{path}: not a file; remove it, or put the file there")
    return path.is_file()


def read_mapping(path: Path) -> dict[str, Any]:
    """A file that holds {name: value, ...}: JSON by its name, else YAML.

    Raises:
        ResultsError: it holds something else.
    """
    kind, load = ("JSON", json.loads) if path.suffix == ".json" else ("YAML", _load_yaml)
    try:
        content = load(path.read_bytes())
        flatten(content)  # not nested without end
    except (yaml.YAMLError, *OF_YAML_TYPES) as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise ResultsError(f"{path}: cannot be read as {kind}: {reason}; restore it or remove it") from error
    if not isinstance(content, dict):
        raise ResultsError(f"{path}: holds {content!r:.60}, no settings by name; restore it or remove it")
    return content


def _load_yaml(text: bytes) -> Any:
    return yaml.load(text, getattr(yaml, "CSafeLoader", yaml.SafeLoader))


# Every setting that results read, and the types that they can use. None counts as absent.
TYPES: dict[str, tuple[type, ...]] = {
    "trainer.experiment_name": (str, int, float),  # a name of digits is a number in YAML
    "trainer.total_training_steps": (int, float),
    "trainer.val_only": (bool,),
    "trainer.validation_data_dir": (str,),
    "trainer.resume_mode": (str,),
    "trainer.resume_from_path": (str,),
    "algorithm.adv_estimator": (str,),
    "algorithm.filter_groups.enable": (bool,),
    "actor_rollout_ref.actor.policy_loss.loss_mode": (str,),
    "data.val_files": (str, list),
    "reward.custom_reward_function": (dict,),
    "reward.custom_reward_function.path": (str,),
    "reward.custom_reward_function.reward_kwargs.judge": (str,),
}


def remove_unusable(config: dict[str, Any]) -> list[str]:
    """Take the settings of other types than TYPES names out of `config`; returns one message for each."""
    messages = []
    for key, types in TYPES.items():
        value = setting(config, key)
        strings = not isinstance(value, list) or all(isinstance(part, str) for part in value)
        if value is not None and not (strings and type(value) in types):
            put(config, key, None)
            messages.append(f"{key} is {value!r:.60}, not {' or '.join(kind.__name__ for kind in types)}; left out")
    return messages


def setting(config: dict[str, Any], key: str) -> Any:
    """The value of a dotted key; None where there is none."""
    value: Any = config
    for name in key.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def put(config: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key; what is no mapping on the way to it becomes one."""
    *parents, name = key.split(".")
    for parent in parents:
        if not isinstance(config.get(parent), dict):
            config[parent] = {}
        config = config[parent]
    config[name] = value


def flatten(config: Any, prefix: str = "") -> dict[str, Any]:
    """Dotted key -> value of a nested configuration; lists are values."""
    if not isinstance(config, dict):
        return {prefix: config}
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat.update(flatten(value, f"{prefix}.{key}" if prefix else str(key)))
    return flat
