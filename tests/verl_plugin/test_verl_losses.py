"""verl's losses: which multiply with the weights of rollout_is."""

import torch

from rpg.checks.loss import BY_RESPONSE
from rpg.checks.off_policy import UNWEIGHTED
from rpg.names import LOSSES as LOSS_NAMES
from rpg.verl_plugin import register

torch.set_num_threads(1)


def batch(rows=6, tokens=5):
    generator = torch.Generator().manual_seed(0)
    old = -torch.rand(rows, tokens, generator=generator) * 3 - 0.5
    log_prob = (old + torch.randn(rows, tokens, generator=generator) * 0.5).requires_grad_()
    return log_prob, old, torch.randn(rows, 1, generator=generator).expand(rows, tokens)


def gradient(loss, log_prob):
    return torch.autograd.grad(loss, log_prob)[0]


def actor_config():
    from verl.workers.config import ActorConfig, PolicyLossConfig

    return ActorConfig(
        strategy="fsdp2",
        rollout_n=1,
        ppo_micro_batch_size_per_gpu=1,
        use_torch_compile=False,
        policy_loss=PolicyLossConfig(dro_beta=0.1),  # the one that has no default
    )


def test_every_loss_but_those_that_are_refused_multiplies_with_the_weights():
    """All registered losses of verl and ours; checks/off_policy.py refuses the exceptions with pi_old=decoupled."""
    from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY

    register()
    config = actor_config()
    assert set(POLICY_LOSS_REGISTRY) >= {*LOSS_NAMES, *UNWEIGHTED}
    weighted = set()
    for name, loss in POLICY_LOSS_REGISTRY.items():
        log_prob, old, advantages = batch()
        gradients = []
        for weights in (None, torch.full_like(old, 2.0)):
            torch.manual_seed(0)  # clip_cov draws the tokens that it clips
            value, _ = loss(
                old_log_prob=old,
                log_prob=log_prob,
                advantages=advantages,
                response_mask=torch.ones_like(old),
                loss_agg_mode="token-mean",
                config=config,
                rollout_is_weights=weights,
            )
            gradients.append(gradient(value, log_prob))
        assert gradients[0].abs().sum() > 0
        if torch.allclose(gradients[1], 2 * gradients[0], rtol=1e-5):
            weighted.add(name)
        else:
            assert torch.equal(*gradients), name
    assert set(POLICY_LOSS_REGISTRY) - weighted == set(UNWEIGHTED)


def test_every_loss_but_those_that_are_warned_of_reads_the_aggregation():
    """With responses of 5 and 2 tokens, a mean over tokens differs from one over responses."""
    from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY

    register()
    mask = torch.ones(6, 5)
    mask[::2, 2:] = 0
    ignoring = set()
    for name, loss in POLICY_LOSS_REGISTRY.items():
        gradients = []
        for aggregation in ("token-mean", "seq-mean-token-mean"):
            log_prob, old, advantages = batch()
            torch.manual_seed(0)
            value, _ = loss(
                old_log_prob=old,
                log_prob=log_prob,
                advantages=advantages,
                response_mask=mask,
                loss_agg_mode=aggregation,
                config=actor_config(),
            )
            gradients.append(gradient(value, log_prob))
        if torch.equal(*gradients):
            ignoring.add(name)
    assert ignoring == set(BY_RESPONSE)
