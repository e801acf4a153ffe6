"""Configuration of the RPG losses in verl; rpg/config validates it before Ray starts."""

from dataclasses import dataclass

from verl.workers.config import PolicyLossConfig

from rpg.names import RHO_BOUND


@dataclass
class RPGPolicyLossConfig(PolicyLossConfig):
    """verl's PolicyLossConfig with the settings of the RPG losses; see LossSpec for their meaning.

    Selected by `actor_rollout_ref.actor.policy_loss._target_: rpg.verl_plugin.config.RPGPolicyLossConfig`.
    The clip bounds are verl's own: actor.clip_ratio_low, clip_ratio_high, clip_ratio_c.

    Attributes:
        kl_coef: beta; 1e-4 in the paper's tables, also 1e-3 in its Figure 9.
        clip_scope: reward, regularized, hard or none (for rpg_<d>).
        clip_branch: psi or advantage (for rpg_rf_<d>_clip_ppo).
        z_old: total mass of pi_old; 1 for a softmax policy.
        kl_scope: token or response (docs/mathematics.md, "Response-level KL").
        rho_bound: with kl_scope response and another reference, limit of the log of the prefix's product of rho.
    """

    kl_coef: float = 1e-4
    clip_scope: str = "reward"
    clip_branch: str = "psi"
    z_old: float = 1.0
    kl_scope: str = "token"
    rho_bound: float = RHO_BOUND
