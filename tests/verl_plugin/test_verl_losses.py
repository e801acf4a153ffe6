"""verl's losses: which multiply with the weights of rollout_is."""

import torch
from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY
from verl.workers.config import ActorConfig, PolicyLossConfig

from rpg.names import LOSSES as LOSS_NAMES
from rpg.verl_plugin import register

torch.set_num_threads(1)

ROWS, TOKENS = 6, 5


def gradient(loss, mask, weights):
    """Return the gradient of a registered loss by log_prob, on the same responses each time."""
    generator = torch.Generator().manual_seed(0)
    old = -torch.rand(ROWS, TOKENS, generator=generator) * 3 - 0.5
    log_prob = (old + torch.randn(ROWS, TOKENS, generator=generator) * 0.5).requires_grad_()
    torch.manual_seed(0)  # clip_cov draws the tokens that it clips
    value, _ = loss(
        old_log_prob=old,
        log_prob=log_prob,
        advantages=torch.randn(ROWS, 1, generator=generator).expand(ROWS, TOKENS),
        response_mask=mask,
        loss_agg_mode="token-mean",
        config=ActorConfig(
            strategy="fsdp2",
            rollout_n=1,
            ppo_micro_batch_size_per_gpu=1,
            use_torch_compile=False,
            policy_loss=PolicyLossConfig(dro_beta=0.1),  # the one that has no default
        ),
        rollout_is_weights=weights,
    )
    return torch.autograd.grad(value, log_prob)[0]


def test_every_loss_but_the_refused_one_multiplies_with_the_weights():
    """checks/off_policy.py refuses bypass_mode with pi_old=decoupled."""
    register()
    assert set(POLICY_LOSS_REGISTRY) >= {*LOSS_NAMES}
    mask, unweighted = torch.ones(ROWS, TOKENS), set()
    for name, loss in POLICY_LOSS_REGISTRY.items():
        plain, doubled = (gradient(loss, mask, weights) for weights in (None, 2 * mask))
        assert plain.abs().sum() > 0
        if not torch.allclose(doubled, 2 * plain, rtol=1e-5):
            assert torch.equal(plain, doubled), name
            unweighted.add(name)
    assert unweighted == {"bypass_mode"}
