"""Configuration of the RPG losses in verl, and the combinations that are refused before Ray starts."""

import difflib
import math
from collections.abc import Callable
from dataclasses import dataclass

from omegaconf import DictConfig, OmegaConf
from verl.workers.config import PolicyLossConfig

from rpg.objectives.divergences import DIVERGENCES
from rpg.objectives.spec import CLIP_BRANCHES, CLIP_SCOPES, LOSS_NAMES, LossSpec, unknown_name_message
from rpg.verl_plugin import reference, schedule_free

ACTOR = "actor_rollout_ref.actor"


@dataclass
class RPGPolicyLossConfig(PolicyLossConfig):
    """verl's PolicyLossConfig with the settings of the RPG losses; see LossSpec for their meaning.

    Selected by `actor_rollout_ref.actor.policy_loss._target_: rpg.verl_plugin.config.RPGPolicyLossConfig`.
    The clip bounds are verl's own: actor.clip_ratio_low, clip_ratio_high, clip_ratio_c.

    Attributes:
        kl_coef: beta; 1e-4 in all runs of the paper.
        clip_scope: reward, regularized, hard or none (for rpg_<d>).
        clip_branch: psi or advantage (for rpg_rf_<d>_clip_ppo).
        z_old: total mass of pi_old; 1 for a softmax policy.
    """

    kl_coef: float = 1e-4
    clip_scope: str = "reward"
    clip_branch: str = "psi"
    z_old: float = 1.0


def validate(config: DictConfig) -> None:
    """Refuse a trainer configuration whose loss, reference or schedule-free settings are wrong or contradictory.

    Args:
        config: the whole configuration of verl.trainer.main_ppo.

    Raises:
        ValueError: names the key, its value and what would be right. Losses of other origin are left
            alone, unless their name looks like a misspelt RPG loss.
    """
    schedule_free.validate(config)
    reference.validate(config)
    key = f"{ACTOR}.policy_loss.loss_mode"
    name = OmegaConf.select(config, key)
    if name not in LOSS_NAMES:
        _refuse_misspelt(key, str(name))
        return
    _check_values(config, name)
    _check_kl_counted_once(config, name)


def _refuse_misspelt(key: str, name: str) -> None:
    from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY

    if name in POLICY_LOSS_REGISTRY:
        return
    if name.lower().startswith("rpg") or difflib.get_close_matches(name.lower(), LOSS_NAMES, n=1):
        raise ValueError(f"{key}={name}: {unknown_name_message(name)}")


def _check_values(config: DictConfig, name: str) -> None:
    """Range and vocabulary of every setting that reaches LossSpec; absent and null ones take defaults."""
    divergence = LossSpec.parse(name).divergence
    number_rules: list[tuple[str, str, Callable[[float], bool]]] = [
        ("clip_ratio", "a number, finite and at least 0", lambda value: value >= 0),
        ("clip_ratio_low", "a number, finite and at least 0", lambda value: value >= 0),
        ("clip_ratio_high", "a number, finite and at least 0", lambda value: value >= 0),
        ("clip_ratio_c", "a number, finite and above 1 (the paper's scripts: 10.0)", lambda value: value > 1),
        (
            "policy_loss.kl_coef",
            "a number, finite and at least 0 (the paper: 1e-4)",
            lambda value: value >= 0,
        ),
        (
            "policy_loss.z_old",
            "a number, finite and above 0 (1.0 for a softmax policy)",
            lambda value: value > 0,
        ),
    ]
    for key, wanted, accepts in number_rules:
        value = OmegaConf.select(config, f"{ACTOR}.{key}")
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if value is not None and not (is_number and math.isfinite(value) and accepts(value)):
            raise ValueError(f"{ACTOR}.{key}={value!r} must be {wanted}")
    for key, choices in (("clip_scope", CLIP_SCOPES), ("clip_branch", CLIP_BRANCHES)):
        value = OmegaConf.select(config, f"{ACTOR}.policy_loss.{key}")
        if value is not None and value not in choices:
            raise ValueError(f"{ACTOR}.policy_loss.{key}={value!r} must be one of {', '.join(choices)}")
    z_old = OmegaConf.select(config, f"{ACTOR}.policy_loss.z_old")
    if z_old not in (None, 1.0) and DIVERGENCES[divergence].normalized:
        raise ValueError(
            f"{ACTOR}.policy_loss.z_old={z_old!r} has no meaning for {name}: {divergence} is defined between "
            "normalised policies. Set it to 1.0, or choose a ufkl or urkl loss"
        )


def _check_kl_counted_once(config: DictConfig, name: str) -> None:
    """verl's own two KL penalties beside the KL that every RPG loss contains."""
    penalties = (
        (f"{ACTOR}.use_kl_loss", f"{ACTOR}.kl_loss_coef"),
        ("algorithm.use_kl_in_reward", "algorithm.kl_ctrl.kl_coef"),
    )
    for switch, coefficient in penalties:
        value = OmegaConf.select(config, coefficient)
        if OmegaConf.select(config, switch) and value != 0:
            raise ValueError(
                f"{switch}=True with {coefficient}={value!r} beside {ACTOR}.policy_loss.loss_mode={name} "
                f"counts the KL twice: the RPG loss contains its own. Set {switch}=False; the KL's "
                f"strength is {ACTOR}.policy_loss.kl_coef"
            )
