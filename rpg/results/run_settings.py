"""Settings that distinguish runs, names of benchmarks, and errors and notes of the commands."""

import argparse
import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path, PurePath
from typing import Any

import yaml

from rpg.config.check import Refused
from rpg.config.fingerprint import HOW_FAST, HOW_OFTEN, of_today
from rpg.config.overrides import BadSetting
from rpg.config.run_config import RunConfig, below, leaves
from rpg.data.readers import DataError
from rpg.registry.recipe import UnknownScript
from rpg.rewards import data_sources
from rpg.rewards.user_reward import RewardError
from rpg.run.measures import judge_of_config

CONFIG = "config.yaml"
ENVIRONMENT = "environment.json"


class ResultsError(ValueError):
    """Input that cannot be read or shown; the message names it and the remedy."""


@dataclass(frozen=True)
class Note:
    """A remark on the input of a command. left_out: whether some of it could not be used."""

    text: str
    left_out: bool = False

    def about(self, name: str) -> "Note":
        """Return the note with its subject in front."""
        return replace(self, text=f"{name}: {self.text}")


def exit_code(notes: Iterable[Note]) -> int:
    """Return 0 if all input was used, 1 if some was left out (docs/results.md)."""
    return int(any(note.left_out for note in notes))


def show_notes(notes: Sequence[Note]) -> int:
    """Print the notes of a command and return its exit code."""
    for note in dict.fromkeys(notes):
        print(f"note: {printable(note.text)}", file=sys.stderr)
    return exit_code(notes)


def refusing(command: Callable[[argparse.Namespace], int]) -> Callable[[argparse.Namespace], int]:
    """Decorate a command: print the error and return 2 if its input cannot be used."""

    @functools.wraps(command)
    def run(args: argparse.Namespace) -> int:
        try:
            return command(args)
        except BrokenPipeError:
            raise
        except (ResultsError, Refused, DataError, RewardError, BadSetting, UnknownScript, OSError) as error:
            print(f"rpg {args.command}: {printable(str(error))}", file=sys.stderr)
            return 2

    return run


def printable(text: str) -> str:
    """Return the text in one line, with unprintable characters as Python escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in text)


def setting(config: dict[str, Any], key: str) -> Any:
    """Return the value of a dotted key, or None."""
    return RunConfig(config).get(key)


def put(config: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key; values on the way to it that are not mappings are replaced by mappings."""
    *parents, name = key.split(".")
    for parent in parents:
        if not isinstance(config.get(parent), dict):
            config[parent] = {}
        config = config[parent]
    config[name] = value


def read_mapping(path: Path) -> dict[str, Any]:
    """Read a YAML or JSON file with a mapping. Raises ResultsError for other content."""
    try:
        content = yaml.load(path.read_bytes(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except (yaml.YAMLError, ValueError) as error:
        raise ResultsError(f"{path}: cannot be read: {' '.join(str(error).split())}") from error
    if not isinstance(content, dict):
        raise ResultsError(f"{path}: holds no settings")
    return content


# settings that do not distinguish experiments: paths, speed, names, output, saving. Validation frequency is not among
# them, because Best depends on it.
INCIDENTAL = (
    *HOW_OFTEN, *HOW_FAST, "global_profiler", "rpg.console", "rpg.data_dir", "rpg.script",
    "actor_rollout_ref.rollout.trace", "trainer.default_local_dir", "trainer.experiment_name", "trainer.logger",
    "trainer.project_name", "trainer.rollout_data_dir", "trainer.validation_data_dir",
    "reward.custom_reward_function.reward_kwargs.judge",  # reported as `judge`, also for older configurations
)  # fmt: skip


def settings(config: dict[str, Any], seeds: bool = False) -> dict[str, str]:
    """Return the settings that distinguish experiments: all but INCIDENTAL, and seeds unless requested.

    Adds `judge` and, for an evaluation, `checkpoint`.
    """
    kept = {
        key: repr(value)
        for key, value in of_today(dict(leaves(config))).items()
        if (seeds or not key.endswith("seed")) and not below(key, INCIDENTAL) and value != {}
    }
    if config:
        kept["judge"] = judge_of_config(config) or ""
    if setting(config, "trainer.val_only"):
        checkpoint = PurePath(setting(config, "trainer.resume_from_path") or "").name
        evaluated = {"disable": "untrained", "resume_path": checkpoint}
        kept["checkpoint"] = evaluated.get(setting(config, "trainer.resume_mode"), "latest")
    return kept


def differing(all_settings: Sequence[dict[str, str]]) -> dict[str, list[str | None]]:
    """Return dotted key -> values, for keys whose values differ; None for a missing key."""
    keys = sorted({key for one in all_settings for key in one})
    rows = {key: [one.get(key) for one in all_settings] for key in keys}
    return {key: values for key, values in rows.items() if len(set(values)) > 1}


# data_source -> benchmark: the paper's names in the paper's order; others keep their name
BENCHMARKS = {
    "AIME24": tuple(name for name in data_sources.AIME_SOURCES if "24" in name or name == "Maxwell-Jia/AIME_2024"),
    "AIME25": tuple(name for name in data_sources.AIME_SOURCES if "25" in name),
    "AMC23": data_sources.AMC_SOURCES,
    "Minerva-Math": data_sources.MINERVA_SOURCES,
    "OlympiadBench": data_sources.OLYMPIAD_SOURCES,
    "MATH-500": data_sources.MATH_500_SOURCES,
    "MATH": data_sources.MATH_SOURCES,
    "GSM8K": data_sources.GSM8K_SOURCES,
    "toy sums": data_sources.TOY_SOURCES,
}
BENCHMARK_OF = {name: benchmark for benchmark, names in BENCHMARKS.items() for name in names}
