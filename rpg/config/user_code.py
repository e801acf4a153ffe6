"""The user's reward function, losses and estimators: which settings they change, and where their source is.

`reward.custom_reward_function.path=FILE` and `actor_rollout_ref.model.external_lib=FILE` are the only overrides that
they need.
"""

import importlib.util
import os
from collections.abc import Collection
from pathlib import Path
from typing import Any

import rpg.rewards
from rpg.config.verl_keys import FUNCTION, JUDGE, MODEL, OVERLONG
from rpg.diagnostics import ABSENT, BadSetting
from rpg.dotted import below, value_at
from rpg.rewards import OURS
from rpg.rewards.user_function import RewardError, reward_file
from rpg.rewards.user_reward import ADAPTER, CALLED_WITH
from rpg.verl_plugin.external import FILE

JUDGE_GROUP = "judge"  # the Hydra group, and the keyword of rpg.rewards
SOCKETS = "rpg.verl_plugin.rollout"  # verl's external_lib of every run: keeps the weight transfers of two runs apart
PATH, KWARGS, NAME = (f"{FUNCTION}.{name}" for name in ("path", "reward_kwargs", "name"))
VERLS_NAME, PENALTY = "compute_score", f"{OVERLONG}.enable"  # VERLS_NAME: verl's default of NAME


def is_ours(path: str | None) -> bool:
    """Return whether the reward function is rpg.rewards, in either spelling that verl accepts."""
    return path == OURS or (bool(path) and Path(str(path)).expanduser().resolve() == Path(rpg.rewards.__file__))


def reward_settings(config: dict[str, Any], overridden: Collection[str]) -> dict[str, Any]:
    """Return the settings that a reward function other than rpg.rewards changes: dotted key -> value, ABSENT removes.

    verl calls the function through rpg.rewards.user_reward. The keyword `judge` is dropped. The overlong penalty is
    switched off: it would be added to a reward of another range. Settings that the user overrides stay. A file that
    does not exist changes nothing; the checks reject it.

    config: nested dictionaries. overridden: the keys and groups that the user overrides. Raises BadSetting for a
    keyword of the user's that the adapter needs.
    """
    path, options = value_at(config, PATH), value_at(config, KWARGS)
    if not isinstance(path, str):
        return {}
    if is_ours(path):
        return {PATH: OURS}
    changes: dict[str, Any] = {}
    if isinstance(options, dict) and JUDGE_GROUP in options and not {JUDGE_GROUP, JUDGE} & {*overridden}:
        changes[JUDGE] = ABSENT
    if path != ADAPTER:
        try:
            changes |= {PATH: ADAPTER, NAME: VERLS_NAME, f"{KWARGS}.file": reward_file(path)}
        except RewardError:
            return changes
        if taken := [name for name in CALLED_WITH if isinstance(options, dict) and name in options]:
            raise BadSetting(f"{KWARGS}.{taken[0]}: is set by the call of your function; give it another name")
        if below(NAME, overridden) or value_at(config, NAME) not in (VERLS_NAME, None):  # else the child finds it
            changes[f"{KWARGS}.function"] = value_at(config, NAME)
    # a data set of the recipe with its own reward keeps the penalty
    if below(PATH, overridden) and value_at(config, PENALTY) and not below(PENALTY, overridden):
        changes[PENALTY] = False
    return changes


def library_settings(config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings that the user's modules and files change: they move from verl's external_lib to ours.

    verl's key takes one name or a list. verl could import modules only, and rejects a list in some of its processes;
    rpg.verl_plugin.external imports them all. Values of another type stay for the checks.
    """
    named, stored = value_at(config, f"{MODEL}.external_lib"), value_at(config, "rpg.external_lib")
    names = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    modules = [*(stored if isinstance(stored, list) else []), *(name for name in names if name != SOCKETS)]
    if not modules or not all(isinstance(name, str) for name in modules):
        return {}
    changes: dict[str, Any] = {"rpg.external_lib": [*dict.fromkeys(map(_absolute, modules))]}
    if names and names != [SOCKETS]:
        changes[f"{MODEL}.external_lib"] = SOCKETS
    return changes


def _absolute(name: str) -> str:
    return os.path.abspath(os.path.expanduser(name)) if name.endswith(FILE) else name


def source(name: str) -> Path | None:
    """Return the file of a module or file, or None without one."""
    if name.endswith(FILE):
        return Path(name) if Path(name).is_file() else None
    try:
        spec: Any = importlib.util.find_spec(name)  # imports its parents but not the module
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec and spec.has_location else None
