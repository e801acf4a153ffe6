"""The losses as verl calls them on the device, against the CPU; `rpg verify --device cuda` has the losses alone."""

import pytest
import torch
from verl.trainer.ppo.core_algos import get_policy_loss_fn
from verl.workers.config import FSDPActorConfig

from rpg.objectives import LOSS_NAMES
from rpg.verl_plugin import register
from rpg.verl_plugin.config import RPGPolicyLossConfig
from tests.objectives.test_loss_robustness import random_inputs

pytestmark = pytest.mark.gpu

DEVICE = "cuda"


def policy_loss(name: str, device: str, compiled: bool = False) -> tuple[torch.Tensor, torch.Tensor, dict]:
    """Return loss, gradient by log_prob and metrics, called like verl's actor."""
    register()
    inputs = {key: tensor.to(device) for key, tensor in random_inputs((16, 300)).items()}
    mask = (torch.arange(300) < torch.arange(10, 170, 10)[:, None]).to(device)
    log_prob = inputs["log_prob"].requires_grad_()
    config = FSDPActorConfig(
        strategy="fsdp2", rollout_n=8, ppo_micro_batch_size_per_gpu=16, clip_ratio_c=10.0,
        use_torch_compile=compiled,
        policy_loss=RPGPolicyLossConfig(loss_mode=name, kl_coef=0.1),
    )  # fmt: skip
    loss, metrics = get_policy_loss_fn(name)(
        old_log_prob=inputs["old_log_prob"], log_prob=log_prob, advantages=inputs["advantages"], response_mask=mask,
        loss_agg_mode="token-mean", config=config,
    )  # fmt: skip
    loss.backward()
    return loss.detach(), log_prob.grad, metrics


@pytest.mark.parametrize(
    ("name", "compiled"),
    [*((name, False) for name in LOSS_NAMES), ("rpg_urkl", True), ("rpg_rf_urkl_clip_ppo", True)],
)
def test_policy_loss_as_verl_calls_it(name, compiled):
    loss, gradient, metrics = policy_loss(name, "cpu")
    on_gpu = policy_loss(name, DEVICE, compiled)
    # sums of thousands of float32 in another order
    torch.testing.assert_close(on_gpu[0].cpu(), loss, rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(on_gpu[1].cpu(), gradient, rtol=1e-4, atol=1e-8)
    assert on_gpu[2].keys() == metrics.keys()
