"""The methods of the grid differ: gradients of the cpu scripts on the same batch.

Each script's configuration goes through verl's estimators, policy losses and KL loss. Gradients are by log-probs, on a
later mini-batch of an iteration, where pi_theta differs from pi_old.
"""

import functools
import itertools
from dataclasses import replace

import numpy as np
import pytest
import torch

from tests.builders.launch_scripts import NAMES, composed

pytestmark = pytest.mark.full  # 40 s

# a script with another optimizer, model or schedule has the loss of its twin
ALIKE = {"optim": "adamw", "model": None, "schedule": "sync"}
ON_A_CPU = [name for name, parts in NAMES.items() if parts.size == "cpu" and replace(parts, **ALIKE) == parts]
GROUPS, SIZE, TOKENS = 4, 4, 6
SAME = 1e-9  # relative distance of two gradients that count as one; beta is 1e-4, the numbers are float64


@functools.cache
def batch() -> dict[str, torch.Tensor | np.ndarray]:
    """Return one batch of (16, 6): rewards, mask, old and reference log-probs, later log-probs."""
    generator = torch.Generator().manual_seed(0)
    shape = (GROUPS * SIZE, TOKENS)

    def normal(scale):
        return scale * torch.randn(shape, generator=generator, dtype=torch.float64)

    mask = torch.ones(shape, dtype=torch.float64)
    mask[::3, -2:] = 0
    rewards = torch.zeros(shape, dtype=torch.float64)
    last = mask.sum(1).long() - 1
    rewards[torch.arange(len(last)), last] = torch.randint(0, 2, (len(last),), generator=generator).double() * 2 - 1
    old = -1 - normal(1.0).abs()
    return {
        "token_level_rewards": rewards,
        "token_level_scores": rewards,
        "response_mask": mask,
        "old_log_probs": old,
        "ref_log_prob": old + normal(0.3),
        "later": old + normal(0.4),  # ratios from about 0.4 to 2.5: on both sides of both clips
        "uid": np.repeat(np.arange(GROUPS), SIZE).astype(object),
    }


def gradient(name: str) -> torch.Tensor:
    """Return d loss / d log_prob of a script's method, (16, 6)."""
    from verl import DataProto
    from verl.trainer.ppo.core_algos import agg_loss, get_kl_controller, get_policy_loss_fn, kl_penalty
    from verl.trainer.ppo.ray_trainer import apply_kl_penalty, compute_advantage
    from verl.utils.config import omega_conf_to_dataclass

    from rpg.verl_plugin import register
    from rpg.verl_plugin.policy_loss import MICRO_BATCH, MicroBatch

    register()
    config = composed(name)
    actor = omega_conf_to_dataclass(config.actor_rollout_ref.actor)
    algorithm = omega_conf_to_dataclass(config.algorithm)
    data = DataProto.from_single_dict(dict(batch()))
    if algorithm.use_kl_in_reward:
        data, _ = apply_kl_penalty(data, get_kl_controller(algorithm.kl_ctrl), algorithm.kl_penalty)
    norm = algorithm.norm_adv_by_std_in_grpo
    data = compute_advantage(data, algorithm.adv_estimator, norm_adv_by_std_in_grpo=norm, config=algorithm)

    actor.global_batch_info["loss_scale_factor"] = actor.loss_scale_factor  # as ppo_loss does
    log_prob = batch()["later"].clone().requires_grad_()
    fixed = batch()["ref_log_prob"] if config.rpg.reference.mode == "fixed" else None
    token = MICRO_BATCH.set(MicroBatch(ref_log_prob=fixed))  # as rpg.verl_plugin.actor_loss does
    loss, _ = get_policy_loss_fn(actor.policy_loss.loss_mode)(
        old_log_prob=batch()["old_log_probs"],
        log_prob=log_prob,
        advantages=data.batch["advantages"].double(),
        response_mask=batch()["response_mask"],
        loss_agg_mode=actor.loss_agg_mode,
        config=actor,
    )
    MICRO_BATCH.reset(token)
    if actor.use_kl_loss:  # as verl.workers.utils.losses.ppo_loss does
        kl = kl_penalty(log_prob, batch()["ref_log_prob"], actor.kl_loss_type)
        loss = loss + actor.kl_loss_coef * agg_loss(kl, batch()["response_mask"], actor.loss_agg_mode)
    return torch.autograd.grad(loss, log_prob)[0]


def test_every_method_is_one_of_its_own():
    gradients = {name: gradient(name) for name in ON_A_CPU}
    for mine in gradients.values():
        assert mine.isfinite().all()
        assert (mine[batch()["response_mask"] == 0] == 0).all()
    for one, other in itertools.combinations(ON_A_CPU, 2):
        apart = (gradients[one] - gradients[other]).norm()
        assert apart >= SAME * gradients[one].norm(), (one, other)
