"""Settings that distinguish runs."""

import itertools
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from rpg.config.fingerprint import HOW_FAST, HOW_OFTEN, of_today
from rpg.config.run_config import RunConfig, below, leaves
from rpg.run.measures import judge_of_config


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


# settings that do not distinguish experiments: paths, speed, names, output, saving. Validation frequency is not among
# them, because Best depends on it.
INCIDENTAL = (
    *HOW_OFTEN, *HOW_FAST, "global_profiler", "rpg.console", "rpg.data_dir", "rpg.script",
    "actor_rollout_ref.rollout.trace", "trainer.default_local_dir", "trainer.experiment_name", "trainer.logger",
    "trainer.project_name", "trainer.rollout_data_dir", "trainer.validation_data_dir",
    "reward.custom_reward_function.reward_kwargs.judge",  # reported as `judge`, also for older configurations
)  # fmt: skip


# settings of the training, which an untrained model has not had
TRAINED_WITH = ("actor_rollout_ref.actor", "actor_rollout_ref.ref", "algorithm", "rpg", "data.train_batch_size")
UNTRAINED = "untrained"


def settings(config: dict[str, Any], seeds: bool = False) -> dict[str, str]:
    """Return the settings that distinguish experiments: all but INCIDENTAL, and seeds unless requested.

    Adds `judge` and, for an evaluation, `checkpoint`; an evaluation of the untrained model has none of TRAINED_WITH.
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
        evaluated = {"disable": UNTRAINED, "resume_path": checkpoint}
        kept["checkpoint"] = evaluated.get(setting(config, "trainer.resume_mode"), "latest")
        if kept["checkpoint"] == UNTRAINED:
            return {key: value for key, value in kept.items() if not below(key, TRAINED_WITH)}
    return kept


def differing(all_settings: Sequence[dict[str, str]]) -> dict[str, list[str | None]]:
    """Return dotted key -> values, for keys whose values differ; None for a missing key.

    That an untrained model has no settings of a training is no difference.
    """
    keys = sorted({key for config in all_settings for key in config})
    rows = {key: [config.get(key) for config in all_settings] for key in keys}
    trained = [config.get("checkpoint") != UNTRAINED for config in all_settings]
    different = {}
    for key, values in rows.items():
        compared = list(itertools.compress(values, trained)) if below(key, TRAINED_WITH) else values
        if len(set(compared)) > 1:
            different[key] = values
    return different
