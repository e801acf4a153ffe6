"""Whole responses: which token losses have the gradient of the KL of responses, with pi_ref = pi_old and fresh samples.

All 27 or 81 responses of a tabular autoregressive policy are enumerated. The response-level divergences come from
their definitions in formulas.py, and autograd differentiates them; nothing here is shared with the losses.
"""

import itertools

import pytest
import torch

from rpg.objectives import LossSpec, token_loss
from tests.objectives.formulas import DEFINITIONS

torch.set_num_threads(1)

VOCABULARY = 3
POLICIES = 20
MOVES = (0.1, 0.5, 1.0)  # standard deviation of logits(pi_theta) - logits(pi_old)


def responses(length):
    """Return all responses, (3^length, length), and the row of the logits before each token, same shape.

    A prefix has one row: prefixes are numbered by length, then as numbers in base 3.
    """
    tokens = torch.tensor(list(itertools.product(range(VOCABULARY), repeat=length)))
    rows, number, first = [], torch.zeros(len(tokens), dtype=torch.long), 0
    for step in range(length):
        rows.append(first + number)
        number, first = number * VOCABULARY + tokens[:, step], first + VOCABULARY**step
    return tokens, torch.stack(rows, 1)


def token_log_probs(logits, length):
    """Return log pi(token | prefix) of every token of every response, (responses, length)."""
    tokens, rows = responses(length)
    return logits.log_softmax(-1)[rows, tokens]


def gradients(name, length, move, seed):
    """Return the expected gradient of a token loss with advantages 0 and beta 1, and that of D of responses."""
    generator = torch.Generator().manual_seed(seed)
    prefixes = sum(VOCABULARY**step for step in range(length))
    old, noise = (torch.randn(prefixes, VOCABULARY, generator=generator, dtype=torch.float64) for _ in range(2))
    old_log_prob = token_log_probs(old, length)
    old_mass = old_log_prob.sum(1).exp()  # of each response; they sum to 1
    assert old_mass.sum().item() == pytest.approx(1, abs=1e-14)
    logits = (old + move * noise).requires_grad_()
    log_prob = token_log_probs(logits, length)
    spec = LossSpec.parse(name, kl_coef=1.0, clip_scope="none")
    zero = torch.zeros_like(old_log_prob)
    loss, _ = token_loss(spec, log_prob=log_prob, old_log_prob=old_log_prob, advantages=zero)
    (of_loss,) = torch.autograd.grad((old_mass * loss.sum(1)).sum(), logits, retain_graph=True)
    divergence = DEFINITIONS[spec.divergence](log_prob.sum(1).exp(), old_mass).sum()
    (of_divergence,) = torch.autograd.grad(divergence, logits)
    return of_loss, of_divergence


def missed(name, length, move):
    """Return |gradient of the loss - gradient of D| / |gradient of D|, the mean over policies."""
    pairs = [gradients(name, length, move, seed) for seed in range(POLICIES)]
    return sum(((loss - exact).norm() / exact.norm()).item() for loss, exact in pairs) / POLICIES


@pytest.mark.parametrize("name", ["rpg_fkl", "rpg_rf_fkl", "rpg_ufkl", "rpg_rf_ufkl"])
@pytest.mark.parametrize("length", [3, 4])
@pytest.mark.parametrize("move", MOVES)
def test_forward_kls_are_exact_for_responses(name, length, move):
    """Both gradients are sums of at most 81 products of size 1 at most, so that rounding stays below 1e-13."""
    for seed in range(POLICIES):
        of_loss, of_divergence = gradients(name, length, move, seed)
        assert (of_loss - of_divergence).abs().max().item() < 1e-13
        assert of_divergence.norm().item() > 1e-2


@pytest.mark.parametrize("name", ["rpg_rkl", "rpg_rf_rkl", "rpg_urkl", "rpg_rf_urkl"])
def test_reverse_kls_are_not(name):
    """They lack the later tokens' KL and the ratio of the prefix: more the further the policy has moved."""
    misses = [missed(name, 3, move) for move in MOVES]
    assert misses == sorted(misses)
    assert all(miss > least for miss, least in zip(misses, (0.02, 0.15, 0.3), strict=True))
