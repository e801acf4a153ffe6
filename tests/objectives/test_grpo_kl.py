"""GRPO's KL term: what k3 = pi_ref / pi_theta - log(pi_ref / pi_theta) - 1 descends, with which weight."""

import pytest
import torch
from verl.trainer.ppo.core_algos import kl_penalty

torch.set_num_threads(1)

FORWARD, REVERSE = "KL(pi_ref, pi_theta)", "KL(pi_theta, pi_ref)"


def policies(seed):
    """Return theta with a gradient, log pi_theta, log pi_ref and log pi_old over 6 tokens."""
    generator = torch.Generator().manual_seed(seed)
    theta, ref, old = (torch.randn(6, generator=generator, dtype=torch.float64) for _ in range(3))
    theta.requires_grad_()
    return theta, theta.log_softmax(0), ref.log_softmax(0), old.log_softmax(0)


def verl_term(log_prob, ref, kind):
    """verl's KL loss; the log-ratios here are too small for its clamp."""
    return kl_penalty(log_prob, ref, kind)  # type: ignore[arg-type]


TERMS = {  # of log pi_theta, log pi_ref, w
    "k3": lambda log_prob, ref, w: verl_term(log_prob, ref, "k3"),
    "k3+": lambda log_prob, ref, w: verl_term(log_prob, ref, "k3+"),
    "w k3": lambda log_prob, ref, w: w * verl_term(log_prob, ref, "k3"),
    "SG(w) k3": lambda log_prob, ref, w: w.detach() * verl_term(log_prob, ref, "k3"),
}


def descended(term, on_policy, seed):
    """Return the divergence whose gradient is that of the term's mean over pi_old; None if it is neither's."""
    theta, log_prob, ref, old = policies(seed)
    old = log_prob.detach() if on_policy else old
    means = {
        term: (old.exp() * TERMS[term](log_prob, ref, (log_prob - old).exp())).sum(),
        FORWARD: (ref.exp() * (ref - log_prob)).sum(),
        REVERSE: (log_prob.exp() * (log_prob - ref)).sum(),
    }
    slopes = {name: torch.autograd.grad(mean, theta, retain_graph=True)[0] for name, mean in means.items()}
    near = [name for name in (FORWARD, REVERSE) if (slopes[term] - slopes[name]).abs().max() < 1e-12]
    return near[0] if near else None


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize(
    ("term", "on_policy", "off_policy"),
    [
        ("k3", FORWARD, None),
        ("k3+", REVERSE, None),
        ("w k3", REVERSE, REVERSE),
        ("SG(w) k3", FORWARD, FORWARD),
    ],
)
def test_what_each_form_descends(term, on_policy, off_policy, seed):
    assert descended(term, True, seed) == on_policy
    assert descended(term, False, seed) == off_policy
