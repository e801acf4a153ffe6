"""kl_scope "response": the gradient of the KL of responses, by enumeration of tabular autoregressive policies.

The oracle below shares no code with rpg: probabilities of whole responses by loops over prefixes, D by its definition
over responses, the gradient of J by autograd. At some prefixes the environment chooses the next token (a masked token),
and token 0 may end a response (padding).
"""

import itertools
import math

import pytest
import torch

from rpg.names import DIVERGENCES
from rpg.objectives import LOSS_NAMES, LossSpec, later_kl_baseline, losses, token_loss
from tests.objectives.formulas import DEFINITIONS

VOCABULARY, LENGTH = 3, 4
UNCLIPPED = [f"{estimator}_{d}" for d in DIVERGENCES for estimator in ("rpg", "rpg_rf")]
# Some hundred float64 operations on numbers below 100: rounding is some 1e-13
TOLERANCE = 1e-11


def normal(seed, *shape):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class World:
    """All responses of a tabular autoregressive policy, one row of logits per prefix.

    masked: share of the prefixes at which the environment chooses. ends: whether token 0 ends a response.
    """

    def __init__(self, seed, masked=0.0, ends=False):
        generator = torch.Generator().manual_seed(seed)
        prefixes = [p for n in range(LENGTH) for p in itertools.product(range(VOCABULARY), repeat=n)]
        self.row = {prefix: i for i, prefix in enumerate(prefixes)}
        taken = torch.rand(len(prefixes), generator=generator) < masked
        self.environment = dict(zip(prefixes, taken.tolist(), strict=True))
        self.chances = torch.randn(len(prefixes), VOCABULARY, generator=generator, dtype=torch.float64).softmax(1)
        self.responses = []
        for response in itertools.product(range(VOCABULARY), repeat=LENGTH):
            stop = [i + 1 for i, token in enumerate(response) if ends and token == 0]
            self.responses.append(response[: min(stop, default=LENGTH)])
        self.responses = list(dict.fromkeys(self.responses))
        self.rewards = torch.randn(len(self.responses), generator=generator, dtype=torch.float64)
        self.shape = (len(prefixes), VOCABULARY)

    def tokens(self, logits):
        """Log-probs (responses, LENGTH), NaN where masked, and the mask."""
        table = logits.log_softmax(1)
        rows, mask = [], []
        for response in self.responses:
            own = [
                None if self.environment[response[:i]] else table[self.row[response[:i]], token]
                for i, token in enumerate(response)
            ]
            own += [None] * (LENGTH - len(own))
            rows.append(torch.stack([logits.new_tensor(math.nan) if value is None else value for value in own]))
            mask.append([value is not None for value in own])
        return torch.stack(rows), torch.tensor(mask)

    def probabilities(self, logits):
        """The probability of each response."""
        table, chances = logits.softmax(1), []
        for response in self.responses:
            chance = logits.new_ones(())
            for i, token in enumerate(response):
                prefix = response[:i]
                by = self.chances if self.environment[prefix] else table
                chance = chance * by[self.row[prefix], token]
            chances.append(chance)
        return torch.stack(chances)

    def minus_grad_j(self, divergence, theta, ref, beta, reward=1.0):
        theta = theta.clone().requires_grad_()
        p, q = self.probabilities(theta), self.probabilities(ref)
        ((reward * p * self.rewards).sum() - beta * DEFINITIONS[divergence](p, q).sum()).neg().backward()
        return theta.grad

    def loss_gradient(self, spec, theta, old, ref, reward=1.0, baseline=None):
        """The gradient of sum over responses of pi_old(response) sum_t loss_t."""
        theta = theta.clone().requires_grad_()
        log_prob, mask = self.tokens(theta)
        advantages = (reward * self.rewards).unsqueeze(1).expand(mask.shape).contiguous()
        loss, _ = token_loss(
            spec,
            log_prob=log_prob,
            old_log_prob=self.tokens(old)[0],
            advantages=advantages,
            ref_log_prob=None if ref is old else self.tokens(ref)[0],
            mask=mask,
            kl_baseline=baseline,
        )
        (self.probabilities(old) * loss.sum(1)).sum().backward()
        return theta.grad


def spec_of(name, scope="response", beta=0.7, bound=50.0):
    return LossSpec.parse(name, kl_coef=beta, clip_scope="none", kl_scope=scope, rho_bound=bound)


WORLDS = {"whole": {}, "masked": {"masked": 0.4}, "ends": {"ends": True}, "both": {"masked": 0.3, "ends": True}}


@pytest.mark.parametrize("kind", WORLDS)
@pytest.mark.parametrize("name", UNCLIPPED)
def test_fresh_samples_give_the_gradient_for_responses(name, kind):
    for seed, distance in ((0, 0.5), (1, 2.0), (2, 0.0)):
        world = World(seed, **WORLDS[kind])
        old, to_ref = normal(seed, *world.shape), normal(seed + 100, *world.shape)
        ref = old + distance * to_ref if distance else old
        found = world.loss_gradient(spec_of(name), old, old, ref)
        exact = world.minus_grad_j(LossSpec.parse(name).divergence, old, ref, 0.7)
        assert (found - exact).abs().max() <= TOLERANCE


@pytest.mark.parametrize("name", ["rpg_rkl", "rpg_rf_urkl"])
def test_the_baseline_of_a_run_leaves_the_gradient_exact(name):
    """Groups of two. The loss is linear in the baseline: its mean over the other response stands for all groups."""
    world = World(0, masked=0.3, ends=True)
    old, ref = normal(0, *world.shape), normal(100, *world.shape)
    (log_old, mask), (log_ref, _), count = world.tokens(old), world.tokens(ref), len(world.responses)
    rows = torch.tensor([*itertools.product(range(count), repeat=2)]).flatten()
    groups = [row // 2 for row in range(len(rows))]
    firsts = later_kl_baseline(log_old[rows], log_ref[rows], mask[rows], groups)[::2].view(count, count, LENGTH)
    baseline = (world.probabilities(old)[:, None] * firsts).sum(1)
    found = world.loss_gradient(spec_of(name), old, old, ref, baseline=baseline)
    assert baseline.abs().max() > 0.1
    assert (found - world.minus_grad_j(LossSpec.parse(name).divergence, old, ref, 0.7)).abs().max() <= TOLERANCE


CLIP = {"clip_low": 0.2, "clip_high": 0.28, "clip_c": 3.0}
CLIPPED = [(f"rpg_{d}", rule) for d in DIVERGENCES for rule in ("reward", "regularized", "hard")]
CLIPPED += [(f"rpg_rf_{d}_clip_{clip}", "psi") for d in DIVERGENCES for clip in ("hard", "ppo")]


def slopes_by_loop(name, rule, x, old, ref, advantages, mask, baseline, beta, bound):
    """d loss / d log pi of every token of one response: w A + C token by token, and the clip's table."""
    divergence, _, clip = LOSS_NAMES[name]
    lo, hi, c = 0.8, 1.28, 3.0
    everywhere = rule == "hard" or clip == "hard"
    used = [t for t in range(len(x)) if mask[t]]
    w = {t: math.exp(x[t] - old[t]) for t in used}
    held = {t: min(max(w[t], lo), hi) if everywhere or clip == "ppo" else w[t] for t in used}
    log_rho = {t: ref[t] - old[t] for t in used}
    log_u = {t: math.log(held[t]) - log_rho[t] for t in used}
    slopes = [0.0] * len(x)
    for t in used:
        later = sum(held[s] * log_u[s] for s in used if s > t) - baseline[t]
        prefix = math.exp(min(max(sum(log_rho[s] for s in used if s < t), -bound), bound))
        component = (
            beta
            * {
                "fkl": prefix * math.exp(log_rho[t]),
                "ufkl": prefix * (math.exp(log_rho[t]) - held[t]),
                "rkl": -held[t] * (log_u[t] + later + 1),
                "urkl": -held[t] * (log_u[t] + later),
            }[divergence]
        )
        inside = lo <= w[t] <= hi
        reward, a = w[t] * advantages[t], advantages[t]
        if clip == "hard":
            slopes[t] = -(held[t] * a + component)
        elif clip == "ppo":
            weight = reward + component
            slopes[t] = -weight if (w[t] < hi if weight >= 0 else lo < w[t] < c) else 0.0
        elif rule == "reward":
            slopes[t] = -component - (reward if (w[t] <= hi if a >= 0 else lo <= w[t] <= c) else 0.0)
        elif rule == "regularized":
            weight = reward + component
            slopes[t] = -weight if (w[t] <= hi if weight >= 0 else lo <= w[t] <= c) else 0.0
        else:  # hard, differentiable: only FKL keeps a gradient outside, through log pi
            slopes[t] = -(reward + component) if inside else -component if divergence == "fkl" else 0.0
    return slopes


@pytest.mark.parametrize(("name", "rule"), CLIPPED)
def test_clips_act_on_the_term_with_the_later_kl(name, rule):
    """Slopes of random responses with masked tokens; the later terms come from the ratios that the clip's C uses."""
    rows, length, beta, bound = 24, 9, 0.4, 0.9
    scope = rule if rule != "psi" else "reward"
    spec = LossSpec.parse(name, kl_coef=beta, clip_scope=scope, kl_scope="response", rho_bound=bound, **CLIP)
    old = -normal(1, rows, length).abs() - 3
    x, ref = (old + 0.5 * normal(seed, rows, length) for seed in (2, 3))
    advantages, b = normal(4, rows, length), normal(5, rows, length)
    mask = torch.rand(rows, length, generator=torch.Generator().manual_seed(6)) > 0.3
    log_prob = x.clone().requires_grad_()
    loss, stats = token_loss(
        spec,
        log_prob=log_prob,
        old_log_prob=old,
        advantages=advantages,
        ref_log_prob=ref,
        mask=mask,
        kl_baseline=None if spec.has_prefix else b,
    )
    (slope,) = torch.autograd.grad(loss.sum(), log_prob)
    rest = [tensor.tolist() for tensor in (x, old, ref, advantages, mask, b)]
    expected = [slopes_by_loop(name, rule, *row, beta, bound) for row in zip(*rest, strict=True)]
    log_rho = ((ref - old) * mask).tolist()
    held = sum(abs(sum(log_rho[i][:t])) > bound for i, t in mask.nonzero().tolist())
    torch.testing.assert_close(slope, torch.tensor(expected, dtype=torch.float64), rtol=1e-12, atol=1e-12)
    assert stats.rho_held.sum() == (held if spec.has_prefix else 0)
    assert held > 20


def test_sums_of_others_do_not_contain_the_token_itself():
    """float32: 1e8 + 3 is 1e8, from which 3 cannot be taken again; and a batch without tokens is one."""
    values = torch.tensor([[1e8, 1.0, 2.0, -1e8]])
    assert losses.sum_earlier(values).tolist() == [[0.0, 1e8, 1e8, 1e8]]
    assert losses.sum_later(values[:, :3]).tolist() == [[3.0, 2.0, 0.0]]
    assert losses.sum_later(torch.zeros(2, 0)).shape == (2, 0)


def test_a_baseline_belongs_to_a_reverse_kl():
    x = torch.zeros(2, 3)
    with pytest.raises(ValueError, match=r"kl_baseline with rpg_ufkl.*rkl and urkl"):
        token_loss(LossSpec.parse("rpg_ufkl"), log_prob=x, old_log_prob=x, advantages=x, kl_baseline=x)


def test_the_baseline_by_loop():
    generator = torch.Generator().manual_seed(0)
    rows, length = 13, 7
    old, ref = (-torch.rand(rows, length, generator=generator, dtype=torch.float64) for _ in range(2))
    mask = torch.rand(rows, length, generator=generator) > 0.3
    mask[3, 2:] = False  # ends early
    labels = ["b", "a", "c", "a", "b", "alone", "a", "c", "c", "a", "b", "c", "a"]
    dirty = [tensor.masked_fill(~mask, math.nan) for tensor in (old, ref)]
    found = later_kl_baseline(*dirty, mask, labels)
    for i, t in itertools.product(range(rows), range(length)):
        to_go = [
            sum((old[j, s] - ref[j, s]).item() for s in range(t + 1, length) if mask[j, s])
            for j in range(rows)
            if labels[j] == labels[i] and j != i
        ]
        expected = sum(to_go) / len(to_go) if to_go and mask[i, t] else 0.0
        assert found[i, t].item() == pytest.approx(expected, abs=1e-14)
    half = later_kl_baseline(old.bfloat16().requires_grad_(), ref.bfloat16(), mask, labels)
    assert (half.dtype, half.requires_grad) == (torch.float32, False)
    with pytest.raises(ValueError, match="must have one shape"):
        later_kl_baseline(old, ref[:, :1], mask, labels)


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_response_with_nan_leaves_its_group_s_baseline(value):
    """Its own loss is NaN, for which the mini-batch is skipped; the group's other responses are in other ones."""
    generator = torch.Generator().manual_seed(0)
    old, ref = (-torch.rand(5, 4, generator=generator) for _ in range(2))
    mask, labels = torch.ones(5, 4), ["a", "a", "b", "a", "b"]
    dirty = ref.clone()
    dirty[1, 2] = dirty[2, 0] = value
    found, others = later_kl_baseline(old, dirty, mask, labels), [0, 3, 4]
    expected = later_kl_baseline(old[others], ref[others], mask[others], ["a", "a", "b"])
    torch.testing.assert_close(found[others], expected, rtol=0, atol=1e-6)
    assert found[4].tolist() == [0.0] * 4  # alone now
    assert found.isfinite().all()
