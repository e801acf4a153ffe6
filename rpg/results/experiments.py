"""What makes a run another experiment than the next: its settings but for seeds and incidentals."""

from pathlib import PurePath
from typing import Any

from rpg.results.config import flatten, setting
from rpg.results.methods import judge_of_config

# Settings that do not make another experiment: where it ran, what it was called, what it printed.
_INCIDENTAL = (
    "ray_kwargs",
    "global_profiler",
    "rpg.env",
    "rpg.preload",
    "rpg.console",
    "rpg.data_dir",
    "rpg.poll_interval",
    "actor_rollout_ref.rollout.trace",
    "rpg.script",
    "reward.custom_reward_function.reward_kwargs.judge",  # as `judge`, which older configurations have too
    "rpg.stall_limit",
    "rpg.time_limit",
    "trainer.default_local_dir",
    "trainer.experiment_name",
    "trainer.logger",
    "trainer.project_name",
    "trainer.resume_from_path",
    "trainer.resume_mode",
    "trainer.rollout_data_dir",
    "trainer.save_freq",
    "trainer.validation_data_dir",
)


def is_seed(key: str) -> bool:
    """Whether a dotted key is a seed."""
    return key.endswith("seed")


def settings(config: dict[str, Any], seeds: bool = False) -> dict[str, str]:
    """What makes an experiment another one: every setting but seeds (unless asked for) and incidentals.

    Further ones: `judge`, who scored it, and for an evaluation alone `checkpoint`, what it evaluates.
    """
    flat = flatten(config)
    kept = {
        key: repr(value)
        for key, value in flat.items()
        if (seeds or not is_seed(key)) and not any(key == name or key.startswith(f"{name}.") for name in _INCIDENTAL)
    }
    if config:
        kept["judge"] = judge_of_config(config) or ""
    if setting(config, "trainer.val_only"):
        checkpoint = PurePath(setting(config, "trainer.resume_from_path") or "").name
        evaluated = {"disable": "untrained", "resume_path": checkpoint}
        kept["checkpoint"] = evaluated.get(setting(config, "trainer.resume_mode"), "latest")
    return kept
