"""Compares computations on the device with the CPU."""

import pytest
import torch
from verl.trainer.ppo.core_algos import get_policy_loss_fn
from verl.workers.config import FSDPActorConfig

from rpg.objectives import LOSS_NAMES
from rpg.verl_plugin import register
from rpg.verl_plugin.config import RPGPolicyLossConfig
from tests.objectives.test_loss_robustness import SPECS, loss_and_gradient, random_inputs, spec_id

pytestmark = pytest.mark.gpu

DEVICE = "cuda"


@pytest.mark.parametrize("spec", SPECS, ids=spec_id)
def test_token_loss(spec):
    inputs = random_inputs((16, 300))
    mask = torch.rand(16, 300) > 0.3
    loss, gradient, _ = loss_and_gradient(spec, inputs, mask)
    on_gpu = {key: tensor.to(DEVICE) for key, tensor in inputs.items()}
    gpu_loss, gpu_gradient, _ = loss_and_gradient(spec, on_gpu, mask.to(DEVICE))
    # exp differs in the last bits between devices
    torch.testing.assert_close(gpu_loss.cpu(), loss, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(gpu_gradient.cpu(), gradient, rtol=1e-5, atol=1e-6)


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
