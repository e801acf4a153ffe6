"""Training in the laboratory: independent seeds, staleness of samples, identities between losses."""

import dataclasses
import itertools
import math

import numpy
import pytest
import torch
from verl.trainer.config import AlgoConfig
from verl.trainer.ppo import core_algos

from rpg.names import KL_SCOPES, PI_OLD
from scripts.studies.lab import train as lab
from scripts.studies.lab.task import Task
from scripts.studies.lab.train import VERLS, Batch, Scale, Setting, make_loss, train

torch.set_num_threads(1)

SMALL = Task.make(prompts=4, vocabulary=3, positions=3, states=5)
SHORT = Scale(seeds=3, updates=8, measured=8)


def log_prob_and_batch(seeds=3, responses=6, positions=4):
    generator = torch.Generator().manual_seed(0)
    shape = (seeds, responses, positions)
    old = -torch.rand(shape, generator=generator) * 2 - 0.2
    log_prob = (old + torch.randn(shape, generator=generator) * 0.5).requires_grad_()
    advantages = torch.randn(seeds, responses, 1, generator=generator).expand(shape)
    reference = -torch.rand(shape, generator=generator) * 2 - 0.2
    weights, baseline = torch.rand(shape, generator=generator) + 0.5, torch.randn(shape, generator=generator)
    return log_prob, Batch(old, old, advantages, reference, weights, baseline)


@pytest.mark.parametrize("scope", KL_SCOPES)
@pytest.mark.parametrize("loss", ["rpg_rf_urkl_clip_ppo", "rpg_fkl", *VERLS])
def test_the_gradient_of_a_seed_is_that_of_the_seed_alone(loss, scope):
    log_prob, batch = log_prob_and_batch()
    if "fkl" in loss:
        batch = batch._replace(kl_baseline=None)
    function = make_loss(Setting(loss, kl_coef=0.1, reference="fixed", kl_scope=scope))
    (together,) = torch.autograd.grad(function(log_prob, batch), log_prob)
    for seed in range(3):
        one, *of_one = (None if tensor is None else tensor[seed : seed + 1] for tensor in (log_prob, *batch))
        (alone,) = torch.autograd.grad(function(one, Batch(*of_one)), one)
        torch.testing.assert_close(together[seed], alone[0], rtol=1e-5, atol=1e-7)
    assert together.abs().sum() > 0


@pytest.mark.parametrize("kind", lab.ADVANTAGES)
def test_advantages_are_those_of_verls_estimators(kind):
    rewards = torch.rand(2, 3 * lab.GROUP, generator=torch.Generator().manual_seed(0)).round()
    advantages = lab.advantages_of(kind, rewards)
    for seed, own in enumerate(rewards):
        batch = {"token_level_rewards": own.unsqueeze(-1), "response_mask": torch.ones(len(own), 1)}
        if kind == "whitened":
            config = AlgoConfig(gamma=1.0)
            theirs, _ = core_algos.compute_reinforce_plus_plus_outcome_advantage(**batch, config=config)
        else:
            groups = numpy.arange(len(own)) // lab.GROUP
            theirs, _ = core_algos.compute_grpo_outcome_advantage(
                **batch, index=groups, norm_adv_by_std_in_grpo=kind == "std"
            )
        torch.testing.assert_close(advantages[seed], theirs[:, 0], rtol=1e-4, atol=1e-6)


def test_without_a_kl_three_losses_of_one_clip_are_one():
    """Dual-clip PPO is what RPG-Style Clip and RPG's differentiable losses are at beta 0 (docs/mathematics.md)."""
    rewards = [
        train(Setting(loss, steps=4, staleness=1, lr=0.1), SHORT, SMALL).reward_mean
        for loss in ("vanilla", "rpg_urkl", "rpg_rf_urkl_clip_ppo")
    ]
    torch.testing.assert_close(rewards[0], rewards[1], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(rewards[0], rewards[2], rtol=1e-4, atol=1e-5)


def test_where_samples_are_fresh_the_choices_of_pi_old_are_one():
    for staleness, different in ((0, 1), (2, len(PI_OLD))):
        settings = [Setting("rpg_rf_urkl_clip_ppo", 0.3, 2, staleness, pi_old=choice) for choice in PI_OLD]
        rewards = [train(setting, SHORT, SMALL).reward_mean for setting in settings]
        assert len({tuple(reward.tolist()) for reward in rewards}) == different


def test_the_policy_that_samples_is_as_old_as_asked(monkeypatch):
    """With one step per batch, batch b samples from the policy after max(b - staleness, 0) updates."""
    samplers, policies = [], []
    sample, policy = Task.sample, lab.Record.policy
    monkeypatch.setattr(Task, "sample", lambda self, p, *more: samplers.append(p.clone()) or sample(self, p, *more))
    monkeypatch.setattr(lab.Record, "policy", lambda self, p, q: policies.append(p.clone()) or policy(self, p, q))
    train(Setting("rpg_rf_urkl", lr=0.1, staleness=3), SHORT, SMALL)
    assert len(samplers) == len(policies) == 8
    uniform = torch.full_like(samplers[0], -math.log(3))
    for batch, sampler in enumerate(samplers):
        torch.testing.assert_close(sampler, uniform if batch <= 3 else policies[batch - 4])
    assert not torch.allclose(samplers[4], uniform)


@pytest.mark.parametrize(("fixed", "batches"), [({"batches": 5}, 5), ({}, 2)])
def test_batches_are_fixed_where_asked(fixed, batches, monkeypatch):
    """Without `batches`, eight updates are two batches of four steps."""
    calls = []
    sample = Task.sample
    monkeypatch.setattr(Task, "sample", lambda self, *more: calls.append(1) or sample(self, *more))
    train(Setting("rpg_rf_urkl", steps=4, **fixed), SHORT, SMALL)
    assert len(calls) == batches


def test_a_kl_in_the_reward_is_k1_of_the_response(monkeypatch):
    """R - beta (log pi_old - log pi_ref); the loss has no KL."""
    setting = Setting("rpg_rf_urkl", kl_coef=0.3, reference="fixed", kl_in_reward=True)
    rewards = []
    monkeypatch.setattr(lab, "advantages_of", lambda kind, r: rewards.append(r) or r)
    logits = torch.randn(3, 2, *SMALL.shape, generator=torch.Generator().manual_seed(0))
    sampler, anchor, reference = logits.log_softmax(3)
    places, batch = lab.sample_batch(setting, SMALL, sampler, anchor, reference, torch.Generator().manual_seed(0))
    plain = dataclasses.replace(setting, kl_in_reward=False)
    lab.sample_batch(plain, SMALL, sampler, anchor, reference, torch.Generator().manual_seed(0))
    k1 = (lab.at(sampler, places) - lab.at(reference, places)).sum(-1)
    torch.testing.assert_close(rewards[0], rewards[1] - 0.3 * k1)
    log_prob = lab.at(anchor, places).requires_grad_()
    (slope,) = torch.autograd.grad(make_loss(setting)(log_prob, batch), log_prob)
    w = (log_prob.detach() - batch.old_log_prob).exp()
    torch.testing.assert_close(slope, -w * batch.advantages / slope[0].numel())


@pytest.mark.parametrize("scope", KL_SCOPES)
def test_the_baseline_is_the_groups_mean_of_its_own_seed(scope):
    setting = Setting("rpg_rf_urkl", kl_coef=0.3, reference="fixed", kl_scope=scope, kl_baseline=True)
    sampler, reference = torch.randn(2, 2, *SMALL.shape, generator=torch.Generator().manual_seed(1)).log_softmax(3)
    places, batch = lab.sample_batch(setting, SMALL, sampler, sampler, reference, torch.Generator().manual_seed(0))
    log_u = lab.at(sampler, places) - lab.at(reference, places)
    for seed, group, t in itertools.product(range(2), range(lab.GROUPS), range(3)):
        members = range(group * lab.GROUP, (group + 1) * lab.GROUP)
        part = slice(t, t + 1) if scope == "token" else slice(t + 1, 3)
        mean = sum(log_u[seed, i, part].sum().item() for i in members) / lab.GROUP
        assert batch.kl_baseline is not None
        for i in members:
            assert batch.kl_baseline[seed, i, t].item() == pytest.approx(mean, abs=1e-5)


@pytest.mark.parametrize("field", ["kl_baseline", "kl_in_reward"])
def test_what_is_zero_with_the_reference_pi_old_is_refused(field):
    with pytest.raises(ValueError, match="with reference 'old' the baseline and the KL in the reward are 0"):
        Setting("rpg_rf_urkl", kl_coef=0.1, **{field: True})


def test_it_learns():
    measured = train(Setting("rpg_rf_urkl_clip_ppo", lr=0.1), Scale(seeds=4, updates=80, measured=4), SMALL)
    assert (measured.reward > 0.6).all()
    assert (measured.kl_start > 0.5).all()
    assert (measured.reward_mean < measured.reward).all()


def test_the_gap_is_to_the_maximum_of_the_regularised_objective():
    fixed = train(Setting("rpg_rf_urkl", lr=0.1, kl_coef=0.2, reference="fixed"), SHORT, SMALL)
    torch.testing.assert_close(fixed.gap, SMALL.best(0.2) - (fixed.reward - 0.2 * fixed.kl_start))
    assert (fixed.gap > 0).all()
    old = train(Setting("rpg_rf_urkl", lr=0.1, kl_coef=0.2), SHORT, SMALL)
    torch.testing.assert_close(old.gap, 1 - old.reward)


def test_a_clip_silences_and_no_clip_does_not():
    stale = {"lr": 0.2, "steps": 2, "staleness": 3}
    clipped, free = (train(Setting(loss, **stale), SHORT, SMALL) for loss in ("rpg_rf_urkl_clip_ppo", "rpg_rf_urkl"))
    assert (clipped.silenced > 0.1).all()
    assert (free.silenced == 0).all()
    assert (free.ess < 0.9).all()


def test_a_setting_gives_the_same_numbers_again_and_another_seed_others():
    setting = Setting("cispo", lr=0.1, steps=2, staleness=1, pi_old="decoupled", threshold=2.0)
    one, again = (train(setting, SHORT, SMALL) for _ in range(2))
    assert all(map(torch.equal, one, again))
    other = train(setting, Scale(seeds=3, updates=8, measured=8, seed=1), SMALL)
    assert not torch.equal(one.reward_mean, other.reward_mean)


def test_the_reference_is_as_old_as_asked():
    anchor, reference = torch.zeros(2, *SMALL.shape).log_softmax(2), torch.zeros(2, *SMALL.shape)
    reference[1, :, 0] = 3.0  # the second seed's is far from the anchor
    reference = reference.log_softmax(2)
    every = Setting("rpg_rf_urkl", reference="every_k", renew=4)
    for batches, taken in ((0, anchor), (3, reference), (4, anchor)):
        assert lab.next_reference(every, SMALL, batches, anchor, reference) is taken
    target = Setting("rpg_rf_urkl", reference="kl_target", renew=1.0)
    renewed = lab.next_reference(target, SMALL, 1, anchor, reference)
    torch.testing.assert_close(renewed[0], reference[0])
    torch.testing.assert_close(renewed[1], anchor[1])
    fixed = Setting("rpg_rf_urkl", reference="fixed")
    assert lab.next_reference(fixed, SMALL, 4, anchor, reference) is reference
