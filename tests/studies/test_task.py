"""The laboratory's problem: dynamic programming against enumeration of all responses."""

import itertools
import math

import pytest
import torch

from scripts.studies.lab.task import Task

pytestmark = pytest.mark.full  # the laboratory, no part of the product
torch.set_num_threads(1)

SEEDS, PROMPTS, VOCABULARY, POSITIONS, STATES = 2, 3, 3, 4, 5
TASK = Task.make(PROMPTS, VOCABULARY, POSITIONS, STATES, seed=1)
RESPONSES = list(itertools.product(range(VOCABULARY), repeat=POSITIONS))


def random_policy(seed):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(SEEDS, *TASK.shape, generator=generator, dtype=torch.float64) * 1.5
    return logits.log_softmax(2)


def listed(policy, seed, prompt):
    """Return every response's log-prob under a policy, and its reward."""
    log_probs, rewards = [], []
    for response in RESPONSES:
        state, log_prob = int(TASK.start[prompt]), 0.0
        for position, token in enumerate(response):
            log_prob += policy[seed, prompt, token, position, state].item()
            state = int(TASK.next_state[position, token, state])
        log_probs.append(log_prob)
        rewards.append(float(state == TASK.goal[prompt]))
    return torch.tensor(log_probs, dtype=torch.float64), torch.tensor(rewards, dtype=torch.float64)


def test_reward_and_kl_are_those_of_all_responses():
    p, q = random_policy(0), random_policy(1)
    reward, kl = TASK.expected_reward(p), TASK.kl(p, q)
    for seed in range(SEEDS):
        kls = []
        for prompt in range(PROMPTS):
            log_p, rewards = listed(p, seed, prompt)
            log_q, _ = listed(q, seed, prompt)
            assert log_p.exp().sum().item() == pytest.approx(1, abs=1e-12)
            assert reward[seed, prompt].item() == pytest.approx((log_p.exp() * rewards).sum().item(), abs=1e-12)
            kls.append((log_p.exp() * (log_p - log_q)).sum().item())
        assert kl[seed].item() == pytest.approx(math.fsum(kls) / PROMPTS, abs=1e-12)


@pytest.mark.parametrize("beta", [0.05, 0.3, 2.0])
def test_the_maximum_is_reached_by_the_tilted_policy_and_by_no_other(beta):
    """The maximiser of E[R] - beta KL(pi, uniform) is uniform times exp(R / beta)."""
    uniform = torch.full((SEEDS, *TASK.shape), -math.log(VOCABULARY), dtype=torch.float64)
    values = []
    for prompt in range(PROMPTS):
        log_u, rewards = listed(uniform, 0, prompt)
        log_best = (log_u + rewards / beta).log_softmax(0)
        values.append((log_best.exp() * (rewards - beta * (log_best - log_u))).sum().item())
    assert TASK.best(beta) == pytest.approx(math.fsum(values) / PROMPTS, abs=1e-12)
    p = random_policy(2)
    assert (TASK.expected_reward(p).mean(1) - beta * TASK.kl(p, uniform) < TASK.best(beta)).all()
