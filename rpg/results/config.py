"""Files of settings, what results read of them, and what makes two runs differ; errors and notes of the commands."""

import json
import os
from collections.abc import Iterable
from pathlib import Path, PurePath
from typing import Any

import yaml

from rpg.checks.fingerprint import HOW_FAST, HOW_OFTEN, below
from rpg.rewards import OURS, data_sources

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


# Settings that do not make another experiment, under others of which a run may go on: where it ran and how fast, what
# it was called and printed, how often it was saved. The best of more validations (LOOKS) is another number.
_INCIDENTAL = (
    *HOW_OFTEN,
    *HOW_FAST,
    "global_profiler",
    "rpg.console",
    "rpg.data_dir",
    "actor_rollout_ref.rollout.trace",
    "rpg.script",
    "reward.custom_reward_function.reward_kwargs.judge",  # as `judge`, which older configurations have too
    "trainer.default_local_dir",
    "trainer.experiment_name",
    "trainer.logger",
    "trainer.project_name",
    "trainer.rollout_data_dir",
    "trainer.validation_data_dir",
)


def is_seed(key: str) -> bool:
    """Whether a dotted key is a seed."""
    return key.endswith("seed")


def judge_of_config(config: dict[str, Any]) -> str | None:
    """Which judge scored a run: release, verified, or the reward function where it is not rpg.rewards.

    A configuration of ours without the key is of a time when the judge was `verified` and no other.
    None without a configuration.
    """
    if not config:
        return None
    function = setting(config, "reward.custom_reward_function") or {}
    if judge := setting(function, "reward_kwargs.judge"):
        return judge
    path = function.get("path", OURS)
    return "verified" if path == OURS else PurePath(path).name if path else "verl's own"


def settings(config: dict[str, Any], seeds: bool = False) -> dict[str, str]:
    """What makes an experiment another one: every setting but seeds (unless asked for) and incidentals.

    Further ones: `judge`, who scored it, and for an evaluation alone `checkpoint`, what it evaluates.
    """
    flat = flatten(config)
    kept = {
        key: repr(value) for key, value in flat.items() if (seeds or not is_seed(key)) and not below(key, _INCIDENTAL)
    }
    if config:
        kept["judge"] = judge_of_config(config) or ""
    if setting(config, "trainer.val_only"):
        checkpoint = PurePath(setting(config, "trainer.resume_from_path") or "").name
        evaluated = {"disable": "untrained", "resume_path": checkpoint}
        kept["checkpoint"] = evaluated.get(setting(config, "trainer.resume_mode"), "latest")
    return kept


# What a data_source counts as in tables: the paper's names, in the paper's order; others keep their own.
BENCHMARKS = {
    "AIME24": tuple(name for name in data_sources.AIME_SOURCES if "24" in name or name == "Maxwell-Jia/AIME_2024"),
    "AIME25": tuple(name for name in data_sources.AIME_SOURCES if "25" in name),
    "AMC23": data_sources.AMC_SOURCES,
    "Minerva-Math": data_sources.MINERVA_SOURCES,
    "OlympiadBench": data_sources.OLYMPIAD_SOURCES,
    "MATH-500": data_sources.MATH_SOURCES,
    "toy sums": data_sources.TOY_SOURCES,
}
_BENCHMARK_OF = {name: benchmark for benchmark, names in BENCHMARKS.items() for name in names}


def benchmark_of(data_source: str) -> str:
    """The paper's name of the benchmark that `data_source` spells, or the data_source itself."""
    return _BENCHMARK_OF.get(data_source, data_source)
