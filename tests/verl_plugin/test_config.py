"""Refusals before Ray starts: each names the key, the value and what would be right (design.md 2.4)."""

import re

import pytest
from hydra import compose, initialize_config_module
from omegaconf import OmegaConf
from verl.utils.config import omega_conf_to_dataclass

from rpg.objectives import LOSS_NAMES
from rpg.verl_plugin.config import RPGPolicyLossConfig, validate

ACTOR = "actor_rollout_ref.actor"
TARGET = f"{ACTOR}.policy_loss._target_=rpg.verl_plugin.config.RPGPolicyLossConfig"
KL_COEF = f"+{ACTOR}.policy_loss.kl_coef=1e-4"


def config_with(*overrides):
    """verl's real trainer configuration with command-line overrides."""
    with initialize_config_module(config_module="verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=list(overrides))


@pytest.mark.parametrize("name", ["rpg_urkl", "rpg_rf_urkl_clip_ppo"])
def test_good_configurations_pass(name):
    validate(config_with(f"{ACTOR}.policy_loss.loss_mode={name}"))
    validate(config_with(f"{ACTOR}.policy_loss.loss_mode={name}", TARGET, KL_COEF))


def test_every_loss_name_passes():
    config = config_with(TARGET, KL_COEF)
    for name in LOSS_NAMES:
        config.actor_rollout_ref.actor.policy_loss.loss_mode = name
        validate(config)


@pytest.mark.parametrize(
    ("overrides", "found"),
    [
        ([f"{ACTOR}.policy_loss.loss_mode=rpg_rf_urlk_clip_ppo"], ["=rpg_rf_urlk_clip_ppo", "rpg_rf_urkl_clip_ppo"]),
        ([f"{ACTOR}.policy_loss.loss_mode=rgp_fkl"], ["loss_mode=rgp_fkl", "'rpg_fkl'"]),
        ([f"{ACTOR}.use_kl_loss=True"], [f"{ACTOR}.use_kl_loss=True", "kl_loss_coef=0.001", "twice", ".kl_coef"]),
        (["algorithm.use_kl_in_reward=True"], ["algorithm.use_kl_in_reward=True", "kl_ctrl.kl_coef=0.001", "twice"]),
        ([f"{ACTOR}.clip_ratio_c=1.0"], [f"{ACTOR}.clip_ratio_c=1.0", "above 1"]),
        ([f"{ACTOR}.clip_ratio_low=-0.2"], [f"{ACTOR}.clip_ratio_low=-0.2", "at least 0"]),
        ([f"{ACTOR}.clip_ratio_high=-0.1"], [f"{ACTOR}.clip_ratio_high=-0.1", "at least 0"]),
        ([f"{ACTOR}.clip_ratio=.inf"], [f"{ACTOR}.clip_ratio='.inf'", "finite"]),
        ([f"+{ACTOR}.policy_loss.kl_coef=-1"], [f"{ACTOR}.policy_loss.kl_coef=-1", "1e-4"]),
        ([f"+{ACTOR}.policy_loss.kl_coef=small"], [f"{ACTOR}.policy_loss.kl_coef='small'", "number"]),
        ([f"+{ACTOR}.policy_loss.clip_scope=all"], [f"{ACTOR}.policy_loss.clip_scope='all'", "reward, regularized"]),
        ([f"+{ACTOR}.policy_loss.clip_branch=a"], [f"{ACTOR}.policy_loss.clip_branch='a'", "psi, advantage"]),
        ([f"+{ACTOR}.policy_loss.z_old=0"], [f"{ACTOR}.policy_loss.z_old=0", "above 0"]),
    ],
)  # fmt: skip
def test_refusals_name_key_value_and_remedy(overrides, found):
    base = [] if any("loss_mode" in item for item in overrides) else [f"{ACTOR}.policy_loss.loss_mode=rpg_urkl"]
    with pytest.raises(ValueError, match=re.escape(found[0])) as error:
        validate(config_with(*base, *overrides))
    for text in found[1:]:
        assert text in str(error.value)


def test_z_old_beside_a_normalised_divergence_is_refused():
    with pytest.raises(ValueError, match=r"z_old=2.0 has no meaning for rpg_fkl"):
        validate(config_with(f"{ACTOR}.policy_loss.loss_mode=rpg_fkl", f"+{ACTOR}.policy_loss.z_old=2.0"))
    validate(config_with(f"{ACTOR}.policy_loss.loss_mode=rpg_ufkl", f"+{ACTOR}.policy_loss.z_old=2.0"))


def test_switched_on_penalties_with_coefficient_zero_pass():
    mode = f"{ACTOR}.policy_loss.loss_mode=rpg_urkl"
    validate(config_with(mode, f"{ACTOR}.use_kl_loss=True", f"{ACTOR}.kl_loss_coef=0.0"))
    validate(config_with(mode, "algorithm.use_kl_in_reward=True", "algorithm.kl_ctrl.kl_coef=0"))


def test_other_losses_are_left_alone():
    for name in ("vanilla", "gspo", "dppo_kl"):
        validate(config_with(f"{ACTOR}.policy_loss.loss_mode={name}", f"{ACTOR}.use_kl_loss=True"))


def test_verl_builds_the_dataclass_from_yaml():
    node = config_with(TARGET, KL_COEF, f"+{ACTOR}.policy_loss.clip_scope=none").actor_rollout_ref.actor.policy_loss
    built = omega_conf_to_dataclass(node)
    assert isinstance(built, RPGPolicyLossConfig)
    assert (built.kl_coef, built.clip_scope, built.clip_branch, built.z_old) == (1e-4, "none", "psi", 1.0)
    assert built.get("loss_mode") == "vanilla"


def test_unknown_key_is_refused_by_the_dataclass():
    node = OmegaConf.create({"_target_": "rpg.verl_plugin.config.RPGPolicyLossConfig", "kl_coeff": 1e-4})
    with pytest.raises(Exception, match="kl_coeff"):
        omega_conf_to_dataclass(node)
