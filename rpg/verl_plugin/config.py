"""Configuration of the RPG losses in verl; rpg/config validates it before Ray starts."""

from dataclasses import dataclass

from verl.workers.config import PolicyLossConfig

from rpg.names import RHO_BOUND
from rpg.objectives.spec import LossSpec


@dataclass
class RPGPolicyLossConfig(PolicyLossConfig):
    """verl's PolicyLossConfig with the fields of LossSpec that have no key of verl's; LossSpec has their meaning.

    Selected by `actor_rollout_ref.actor.policy_loss._target_: rpg.verl_plugin.config.RPGPolicyLossConfig`.
    The clip bounds are verl's own: actor.clip_ratio_low, clip_ratio_high, clip_ratio_c.
    """

    kl_coef: float = LossSpec.kl_coef
    clip_scope: str = LossSpec.clip_scope
    clip_branch: str = LossSpec.clip_branch
    z_old: float = LossSpec.z_old
    kl_scope: str = LossSpec.kl_scope
    rho_bound: float = RHO_BOUND
