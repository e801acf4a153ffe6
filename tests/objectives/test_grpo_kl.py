"""GRPO's KL term: what k3 = pi_ref / pi_theta - log(pi_ref / pi_theta) - 1 descends, with which weight."""

import pytest
import torch
from verl.trainer.ppo.core_algos import kl_penalty

torch.set_num_threads(1)

FORWARD, REVERSE = "KL(pi_ref, pi_theta)", "KL(pi_theta, pi_ref)"


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("kind", "weight", "on_policy", "off_policy"),
    [
        ("k3", torch.ones_like, FORWARD, None),
        ("k3+", torch.ones_like, REVERSE, None),
        ("k3", torch.clone, REVERSE, REVERSE),
        ("k3", torch.detach, FORWARD, FORWARD),
    ],
    ids=["k3", "k3+", "w k3", "SG(w) k3"],
)
def test_what_each_form_descends(kind, weight, on_policy, off_policy, seed):
    """The divergence whose gradient is that of the mean over pi_old of weight(w) times verl's term, of 6 tokens.

    The log-ratios are too small for verl's clamp.
    """
    generator = torch.Generator().manual_seed(seed)
    theta, ref, other = (torch.randn(6, generator=generator, dtype=torch.float64) for _ in range(3))
    theta.requires_grad_()
    log_prob, ref = theta.log_softmax(0), ref.log_softmax(0)
    divergences = {FORWARD: (ref.exp() * (ref - log_prob)).sum(), REVERSE: (log_prob.exp() * (log_prob - ref)).sum()}
    for old, descended in ((log_prob.detach(), on_policy), (other.log_softmax(0), off_policy)):
        term = (old.exp() * weight((log_prob - old).exp()) * kl_penalty(log_prob, ref, kind)).sum()
        slopes = [torch.autograd.grad(mean, theta, retain_graph=True)[0] for mean in (term, *divergences.values())]
        near = [
            name for name, slope in zip(divergences, slopes[1:], strict=True) if (slopes[0] - slope).abs().max() < 1e-12
        ]
        assert near == ([descended] if descended else [])
