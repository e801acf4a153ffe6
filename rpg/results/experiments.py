"""What makes a run another experiment than the next: its settings but for seeds and incidentals."""

from pathlib import PurePath
from typing import Any

from rpg.checks.fingerprint import HOW_FAST, HOW_OFTEN, below
from rpg.results.config import flatten, setting
from rpg.rewards import OURS

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
