"""The laboratory: dynamic programming against enumeration of all responses, and the gradients under each pi_old."""

import itertools
import math

import pytest
import torch

from scripts.studies.lab.bias import ROWS, Responses, Row, old_policy
from scripts.studies.lab.task import Task

pytestmark = pytest.mark.full  # the laboratory, no part of the product

TASK = Task.make(prompts=3, vocabulary=3, positions=4, states=5, seed=1)
RESPONSES = list(itertools.product(range(3), repeat=4))


def random_policy(seed):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(1, *TASK.shape, generator=generator, dtype=torch.float64) * 1.5
    return logits.log_softmax(2)


def listed(policy, prompt):
    """Return every response's log-prob under a policy, and its reward."""
    log_probs, rewards = [], []
    for response in RESPONSES:
        state, log_prob = int(TASK.start[prompt]), 0.0
        for position, token in enumerate(response):
            log_prob += policy[0, prompt, token, position, state].item()
            state = int(TASK.next_state[position, token, state])
        log_probs.append(log_prob)
        rewards.append(float(state == TASK.goal[prompt]))
    return torch.tensor(log_probs, dtype=torch.float64), torch.tensor(rewards, dtype=torch.float64)


def test_reward_and_kl_are_those_of_all_responses():
    p, q = random_policy(0), random_policy(1)
    reward, kl, kls = TASK.expected_reward(p), TASK.kl(p, q), []
    for prompt in range(3):
        (log_p, rewards), (log_q, _) = listed(p, prompt), listed(q, prompt)
        assert log_p.exp().sum().item() == pytest.approx(1, abs=1e-12)
        assert reward[0, prompt].item() == pytest.approx((log_p.exp() * rewards).sum().item(), abs=1e-12)
        kls.append((log_p.exp() * (log_p - log_q)).sum().item())
    assert kl[0].item() == pytest.approx(math.fsum(kls) / 3, abs=1e-12)


def gradient(label, distance):
    """Return bias and cosine of a row for normal logits of both policies that differ by `distance`."""
    generator = torch.Generator().manual_seed(4)
    logits, move = (torch.randn(TASK.shape, generator=generator, dtype=torch.float64) for _ in range(2))
    return Responses(TASK).gradient(ROWS[label], (logits + distance * move).log_softmax(1), logits.log_softmax(1))


@pytest.mark.parametrize("label", ROWS)
def test_fresh_samples_give_the_gradient_and_of_old_ones_the_sequence_weight_alone(label):
    bias, cosine = gradient(label, 0.0)
    assert bias <= 1e-10
    assert cosine == pytest.approx(1, abs=1e-12)
    bias, _ = gradient(label, 0.7)
    assert bias <= 1e-10 if label == "decoupled, sequence" else bias > 0.01


@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("threshold", [2.0, 1e9])
def test_the_weights_are_verls(level, threshold):
    from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights

    generator = torch.Generator().manual_seed(0)
    behavior = -torch.rand(6, 9, generator=generator) * 4
    anchor = behavior + torch.randn(6, 9, generator=generator)
    anchor[0] += 30.0  # beyond the clamp at 20
    old, weights = old_policy(Row("decoupled", level=level, threshold=threshold), behavior, anchor)
    theirs, _ = compute_rollout_correction_weights(
        anchor - behavior, torch.ones_like(anchor), rollout_is=level, rollout_is_threshold=threshold
    )
    torch.testing.assert_close(weights, theirs, rtol=1e-5, atol=0)
    assert old is anchor
