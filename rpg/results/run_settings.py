"""Settings that distinguish runs."""

import itertools
from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from rpg.config.keys import ACTOR, DISTINGUISHING, KEYS, REF, row_of
from rpg.dotted import below, leaves, value_at
from rpg.rewards import OURS


def setting(config: dict[str, Any], name: str) -> Any:
    """Return the value of a setting by its name in keys.py, or None; of any configuration, also an older run's."""
    return value_at(config, KEYS[name])


def judge_of_config(config: dict[str, Any]) -> str | None:
    """Return the judge that scored a run: release, verified, or the name of another reward function's file.

    None without a configuration.
    """
    if not config:
        return None
    path = setting(config, "reward_file") or value_at(config, KEYS["reward"], OURS)
    if path == OURS:
        return setting(config, "judge") or "release"  # compute_score's default
    return PurePath(path).name if path else "verl's own"


def distinguishes(key: str) -> bool:
    """Return whether a dotted key tells experiments apart: its role, and `judge` is reported by itself."""
    return row_of(key).role in DISTINGUISHING and key != KEYS["judge"]


# settings of the training, which an untrained model has not had
TRAINED_WITH = (ACTOR, REF, "algorithm", "rpg", KEYS["batch"])
UNTRAINED = "untrained"


def settings(config: dict[str, Any]) -> dict[str, str]:
    """Return the settings that distinguish experiments, without seeds.

    Adds `judge` and, for an evaluation, `checkpoint`; an evaluation of the untrained model has none of TRAINED_WITH.
    """
    kept = {
        key: repr(value)
        for key, value in leaves(config)
        if not key.endswith("seed") and distinguishes(key) and value != {}
    }
    if config:
        kept["judge"] = judge_of_config(config) or ""
    if setting(config, "val_only"):
        checkpoint = PurePath(setting(config, "resume_path") or "").name
        evaluated = {"disable": UNTRAINED, "resume_path": checkpoint}
        kept["checkpoint"] = evaluated.get(setting(config, "resume_mode"), "latest")
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
