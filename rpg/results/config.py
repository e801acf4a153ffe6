"""The keys of a run's resolved configuration that results read, of which types, and how."""

from typing import Any

from rpg.results.records import LeftOut, brief

# Every key that results read, parents first, with the types that they can use. None counts as absent.
READ: dict[str, tuple[type, ...]] = {
    "trainer": (dict,),
    "trainer.experiment_name": (str, int, float),  # a name of digits is a number in YAML
    "trainer.total_training_steps": (int, float),
    "trainer.val_only": (bool,),
    "trainer.validation_data_dir": (str,),
    "trainer.resume_mode": (str,),
    "trainer.resume_from_path": (str,),
    "algorithm": (dict,),
    "algorithm.adv_estimator": (str,),
    "algorithm.filter_groups": (dict,),
    "algorithm.filter_groups.enable": (bool,),
    "actor_rollout_ref": (dict,),
    "actor_rollout_ref.actor": (dict,),
    "actor_rollout_ref.actor.policy_loss": (dict,),
    "actor_rollout_ref.actor.policy_loss.loss_mode": (str,),
    "data": (dict,),
    "data.val_files": (str, list),
    "reward": (dict,),
    "reward.custom_reward_function": (dict,),
    "reward.custom_reward_function.path": (str,),
    "reward.custom_reward_function.reward_kwargs": (dict,),
    "reward.custom_reward_function.reward_kwargs.judge": (str,),
    "rpg": (dict,),
}


def fits(value: Any, types: tuple[type, ...]) -> bool:
    """Whether a value is of one of the types; True is no number, and a list is one of texts."""
    if isinstance(value, list):
        return list in types and all(isinstance(part, str) for part in value)
    return isinstance(value, types) and (bool in types or not isinstance(value, bool))


def keep_usable(config: dict[str, Any], where: str, notes: list[str]) -> dict[str, Any]:
    """`config` without the values of other types than READ says; each is noted."""
    for key, types in READ.items():
        parent_key, _, name = key.rpartition(".")
        parent = setting(config, parent_key) if parent_key else config
        if not parent or parent.get(name) is None or fits(parent[name], types):
            continue
        wanted = " or ".join(kind.__name__ for kind in types)
        notes.append(LeftOut(f"{where}: {key} is {brief(parent.pop(name))}, not {wanted}; left out"))
    return config


def setting(config: dict[str, Any], key: str) -> Any:
    """The value of a dotted key; None where there is none."""
    value: Any = config
    for name in key.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def put(config: dict[str, Any], key: str, value: Any) -> None:
    """Set a dotted key; mappings on the way are made where there are none."""
    *parents, name = key.split(".")
    for parent in parents:
        if config.get(parent) is None:
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
