"""RPGPolicyLossConfig as verl makes it; what is refused before Ray starts is tested in tests/checks."""

import inspect
from dataclasses import fields

from hydra import compose, initialize_config_module
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.config import PolicyLossConfig

from rpg.verl_plugin.config import RPGPolicyLossConfig

ACTOR = "actor_rollout_ref.actor"
TARGET = f"{ACTOR}.policy_loss._target_=rpg.verl_plugin.config.RPGPolicyLossConfig"
KL_COEF = f"+{ACTOR}.policy_loss.kl_coef=1e-4"


def config_with(*overrides):
    """verl's real trainer configuration with command-line overrides."""
    with initialize_config_module(config_module="verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=list(overrides))


def test_verl_builds_the_dataclass_from_yaml():
    node = config_with(TARGET, KL_COEF, f"+{ACTOR}.policy_loss.clip_scope=none").actor_rollout_ref.actor.policy_loss
    built = omega_conf_to_dataclass(node)
    assert isinstance(built, RPGPolicyLossConfig)
    assert (built.kl_coef, built.clip_scope, built.clip_branch, built.z_old) == (1e-4, "none", "psi", 1.0)
    assert built.get("loss_mode") == "vanilla"


def test_no_setting_of_ours_takes_the_name_of_one_of_verls():
    ours = inspect.get_annotations(RPGPolicyLossConfig)
    assert ours.keys().isdisjoint(field.name for field in fields(PolicyLossConfig))
