"""Does the choice of the loss matter once each has its own best rate? Expected reward at the end of training.

Methods with the recipe's loss, bounds, advantages and mean, called as verl calls them, and each with its number
of optimizer steps a batch. All take the same number of batches and samples.
"""

import itertools
from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import pandas as pd
import torch
from omegaconf import OmegaConf
from torch import Tensor

from rpg.config.compose import of_script
from rpg.config.verl_keys import ACTOR
from rpg.registry import scripts as recipe
from scripts.studies.lab.policy import GROUP, GROUPS, Policy, at, over_seeds, sample
from scripts.studies.lab.task import Task

ARMS = {  # launch script: optimizer steps a batch (recipe/rpg/README.md)
    "rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28": 16,
    "rpg_cpu_urkl1e-4": 16,
    "dapo_cpu": 16,
    "grpo_cpu": 16,
    "cispo_cpu": 16,
    "dppo_cpu": 8,
    "gspo_cpu": 4,
    "rpg_cpu_urkl1e-4_rf": 16,  # without a clip; added when the results of the others were known
}
LENGTHS = (6, 24)  # tokens of a response
RATES = tuple(10 ** (quarter / 4) for quarter in range(-8, 3))
SEED = 21
BATCHES, DRAWS = 4, 16  # of DRAWS x GROUPS prompts, each with GROUP responses; after 12 all rewards are near 1


class Method(NamedTuple):
    """actor: verl's configuration of the actor. estimator: verl's function of the advantages, divided: its option."""

    actor: Any
    estimator: Any
    divided: bool


@cache
def method_of(name: str) -> Method:
    """Return the method of a launch script, from its composed configuration."""
    from verl.trainer.ppo.core_algos import get_adv_estimator_fn
    from verl.utils.config import omega_conf_to_dataclass

    from rpg.verl_plugin import register

    register()
    run = of_script(recipe.find(name), [])
    actor = omega_conf_to_dataclass(OmegaConf.create(run[ACTOR]))
    estimator = run["algorithm.adv_estimator"]
    estimator = {"grpo": "grpo_vectorized"}.get(estimator, estimator)  # equal, and fast
    return Method(actor, get_adv_estimator_fn(estimator), run["algorithm.norm_adv_by_std_in_grpo"])


def loss_of(method: Method, log_prob: Tensor, old: Tensor, initial: Tensor, advantages: Tensor) -> Tensor:
    """Return verl's loss of a mini-batch, of (responses, tokens); initial: log-probs of the initial policy."""
    from verl.trainer.ppo.core_algos import agg_loss, get_policy_loss_fn, kl_penalty

    actor, mask = method.actor, torch.ones_like(old)
    actor.global_batch_info["loss_scale_factor"] = actor.loss_scale_factor  # as verl's ppo_loss does
    loss, _ = get_policy_loss_fn(actor.policy_loss.loss_mode)(
        old_log_prob=old, log_prob=log_prob, advantages=advantages, response_mask=mask,
        loss_agg_mode=actor.loss_agg_mode, config=actor, rollout_is_weights=None,
    )  # fmt: skip
    if actor.use_kl_loss:
        divergence = kl_penalty(log_prob, initial, actor.kl_loss_type)
        loss = loss + actor.kl_loss_coef * agg_loss(divergence, mask, actor.loss_agg_mode, **actor.global_batch_info)
    return loss


def train(name: str, length: int, lr: float, seeds: int, seed: int) -> dict[str, Tensor]:
    """Train all seeds; return expected reward and KL(pi, initial policy) of responses at the end, (seeds,)."""
    task, generator, method = Task.make(positions=length), torch.Generator().manual_seed(seed), method_of(name)
    policy = Policy(task, seeds, lr, generator)
    initial = policy.log_probs().detach()
    size = DRAWS * GROUPS * GROUP // ARMS[name]
    groups = torch.arange(seeds * DRAWS * GROUPS).repeat_interleave(GROUP).numpy()
    for _ in range(BATCHES):
        present = policy.log_probs().detach()
        places, rewards = sample(task, present, DRAWS, generator)
        old, first = at(present, places), at(initial, places)
        rows = rewards.reshape(-1, 1)
        advantages, _ = method.estimator(
            token_level_rewards=rows, response_mask=torch.ones_like(rows), index=groups,
            norm_adv_by_std_in_grpo=method.divided,
        )  # fmt: skip
        advantages = advantages.view(*rewards.shape, 1).expand_as(old)
        for start in range(0, old.shape[1], size):
            part = slice(start, start + size)
            inputs = (tensor[:, part].flatten(0, 1) for tensor in (old, first, advantages))
            log_prob = at(policy.log_probs(), places[:, part]).flatten(0, 1)
            policy.step(seeds * loss_of(method, log_prob, *inputs))  # a mean over seeds, which do not interact
    final = policy.log_probs().detach()
    return {"reward": task.expected_reward(final).mean(1), "kl": task.kl(final, initial)}


def line(name: str, length: int, lr: float, seeds: int, fresh: bool) -> dict[str, Any]:
    """Return a line of `rates_table`; fresh: on other policies than those that chose the best rate."""
    ends = over_seeds(train(name, length, lr, seeds, SEED + fresh))
    return {"label": name, "length": length, "steps": ARMS[name], "lr": lr, "fresh": fresh, **ends}


def rates_table(
    seeds: int, lengths: Sequence[int] = LENGTHS, rates: Sequence[float] = RATES, arms: Sequence[str] = tuple(ARMS)
) -> pd.DataFrame:
    """Return a line a training, with reward and kl over seeds: every rate, then the best one and twice that, fresh."""
    lines = []
    for length, name in itertools.product(lengths, arms):
        of_rates = [line(name, length, lr, seeds, fresh=False) for lr in rates]
        best = max(of_rates, key=lambda one: one["reward"])["lr"]
        lines += [*of_rates, *(line(name, length, lr, seeds, fresh=True) for lr in (best, 2 * best))]
    return pd.DataFrame(lines)
