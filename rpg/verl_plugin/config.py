"""Configuration of the RPG losses in verl; rpg/config validates it before Ray starts."""

from dataclasses import dataclass

from verl.workers.config import PolicyLossConfig


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
        kl_scope: token or response (docs/mathematics.md, "Response-level KL").
        rho_bound: with kl_scope response and another reference, limit of the log of the prefix's product of rho.
    """

    kl_coef: float = 1e-4
    clip_scope: str = "reward"
    clip_branch: str = "psi"
    z_old: float = 1.0
    kl_scope: str = "token"
    # Policies of the laboratory, 0.1 to 4.6 nats from the reference: at 2 the noise of one response is 0.7 to 1.2 times
    # that of kl_scope "token", the bias 0 to 0.3 instead of 0.1 to 1.4 times the gradient; at 5 the noise is up to 3.4
    # times. Mean of 8192 responses: the error is smallest at 1 to 4, there and for random policies.
    rho_bound: float = 2.0
