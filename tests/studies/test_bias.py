"""The exact gradient of whole responses: the claims of docs/off-policy.md on each pi_old."""

import itertools

import pytest
import torch

from scripts.studies.lab.bias import ROWS, Responses, bias_table, noise_table
from scripts.studies.lab.task import Task

pytestmark = pytest.mark.full  # the laboratory, no part of the product
torch.set_num_threads(1)

TASK = Task.make(prompts=3, vocabulary=3, positions=3, states=5)
RESPONSES = Responses(TASK)
TOLERANCE = 1e-10


def policies(distance):
    """Return sampling and current policy: normal logits that differ by `distance`."""
    generator = torch.Generator().manual_seed(4)
    logits, move = (torch.randn(TASK.shape, generator=generator, dtype=torch.float64) for _ in range(2))
    return (logits + distance * move).log_softmax(1), logits.log_softmax(1)


def gradient(label, distance):
    spec, choice = ROWS[label]
    return RESPONSES.gradient(spec, *policies(distance), choice)


def test_every_response_once_and_its_reward():
    _, present = policies(0.0)
    log_prob = present.flatten()[RESPONSES.places].sum(-1)
    torch.testing.assert_close(log_prob.exp().sum(1), torch.ones(3, dtype=torch.float64))
    expected = (log_prob.exp() * RESPONSES.rewards).sum(1)
    torch.testing.assert_close(expected, TASK.expected_reward(present.unsqueeze(0))[0])


@pytest.mark.parametrize("label", ROWS)
def test_fresh_samples_give_the_gradient_under_every_choice(label):
    fresh = gradient(label, 0.0)
    assert fresh.bias <= TOLERANCE
    assert fresh.cosine == pytest.approx(1, abs=1e-12)


def test_the_sequence_weight_alone_is_exact_for_whole_responses():
    assert gradient("decoupled, sequence", 0.7).bias <= TOLERANCE
    for label in ROWS:
        if label != "decoupled, sequence":
            assert gradient(label, 0.7).bias > 0.01, label


def test_noise_is_the_spread_of_the_gradients_of_single_responses():
    """Each response's gradient written out: -w A / chance-free sum over its tokens of (one-hot - p)."""
    sampler, present = policies(0.7)
    chance = sampler.flatten()[RESPONSES.places].sum(-1).exp()
    advantages = RESPONSES.rewards - (chance * RESPONSES.rewards).sum(1, keepdim=True)
    probs, size = present.exp(), RESPONSES.objective_gradient(present).norm()
    gradients, weights = [], []
    for prompt in range(3):
        for response, places in enumerate(RESPONSES.places[prompt]):
            each = torch.zeros_like(present)
            for place in places.tolist():
                one_hot = torch.zeros_like(present)
                one_hot.view(-1)[place] = 1.0
                at = one_hot.sum(1, keepdim=True)  # 1 at this prompt, position and state
                each -= advantages[prompt, response] * (one_hot - at * probs)
            gradients.append(each.flatten())
            weights.append(chance[prompt, response] / 3)
    stacked, measure = torch.stack(gradients), torch.stack(weights)
    mean = (measure.unsqueeze(1) * stacked).sum(0)
    spread = (measure * (stacked - mean).square().sum(1)).sum().sqrt() / size
    assert gradient("recomputed", 0.7).noise == pytest.approx(spread.item(), rel=1e-9)


def test_the_table():
    table = bias_table(seeds=2, ages=(0, 8)).set_index(["label", "age"])
    assert set(table.index) == set(itertools.product(ROWS, (0, 8)))
    assert (table.xs(0, level="age")["bias"] < 1e-6).all()
    assert table["bias"]["recomputed", 8] > table["bias"]["behavior, no clip", 8] > 0.05
    assert table["cosine"]["behavior, RPG-Style Clip", 8] < table["cosine"]["behavior, no clip", 8]
    assert table["noise_se"].notna().all()


def test_the_noise_of_the_divergences():
    """Where samples are fresh log w is 0: the weight of URKL and UFKL is A, of RKL A - beta, of FKL A + beta."""
    noise = noise_table(seeds=1).query("beta == 1").set_index("label")["noise"]
    for divergence in ("FKL", "RKL", "UFKL", "URKL"):
        assert noise[f"RPG {divergence}"] == pytest.approx(noise[f"RPG-REINFORCE {divergence}"], rel=1e-6)
    assert noise["RPG URKL"] == pytest.approx(noise["RPG UFKL"], rel=1e-6)
    assert noise["RPG URKL"] < 0.7 * min(noise["RPG RKL"], noise["RPG FKL"])
