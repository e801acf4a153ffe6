"""The exact gradient of whole responses: the claims of docs/off-policy.md on each pi_old."""

import pytest
import torch

from scripts.studies.lab.bias import ROWS, Responses
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
    return RESPONSES.gradient(ROWS[label], *policies(distance))


def test_every_response_once_and_its_reward():
    _, present = policies(0.0)
    log_prob = present.flatten()[RESPONSES.places].sum(-1)
    torch.testing.assert_close(log_prob.exp().sum(1), torch.ones(3, dtype=torch.float64))
    expected = (log_prob.exp() * RESPONSES.rewards).sum(1)
    torch.testing.assert_close(expected, TASK.expected_reward(present.unsqueeze(0))[0])


@pytest.mark.parametrize("label", ROWS)
def test_fresh_samples_give_the_gradient_under_every_choice(label):
    bias, cosine = gradient(label, 0.0)
    assert bias <= TOLERANCE
    assert cosine == pytest.approx(1, abs=1e-12)


def test_the_sequence_weight_alone_is_exact_for_whole_responses():
    assert gradient("decoupled, sequence", 0.7)[0] <= TOLERANCE
    for label in ROWS:
        if label != "decoupled, sequence":
            assert gradient(label, 0.7)[0] > 0.01, label
