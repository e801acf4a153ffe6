"""The advantages `rpg` and `rpg_batchmean` against loops over samples."""

import uuid

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from rpg.objectives import batch_mean_advantages, group_mean_advantages


def by_loop(rewards, mask, groups):
    """The definition, one response at a time."""
    scores = [float(row.sum()) for row in rewards.double()]
    result = torch.zeros_like(rewards)
    for i, label in enumerate(groups):
        members = [score for score, other in zip(scores, groups, strict=True) if other == label]
        baseline = sum(members) / len(members) if len(members) > 1 else 0.0
        result[i] = (scores[i] - baseline) * mask[i]
    return result


@settings(max_examples=200, deadline=None)
@given(
    labels=st.lists(st.integers(0, 5), min_size=0, max_size=20),
    tokens=st.integers(1, 6),
    seed=st.integers(0, 2**31),
)
def test_any_order_any_group_size(labels, tokens, seed):
    generator = torch.Generator().manual_seed(seed)
    rewards = torch.randn(len(labels), tokens, generator=generator)
    mask = torch.randint(0, 2, (len(labels), tokens), generator=generator)
    expected = by_loop(rewards, mask, labels)
    # scores are sums of up to 6 normals; float32 output rounds them at 1e-6
    as_verl = np.array([str(uuid.UUID(int=label * 7919)) for label in labels], dtype=object)
    for groups in (as_verl, torch.tensor(labels, dtype=torch.int64), labels):
        torch.testing.assert_close(group_mean_advantages(rewards, mask, groups), expected, rtol=1e-5, atol=1e-6)


def test_what_fills_a_batch_up_is_none_of_its_responses():
    """Rewards 1, 1, -1 and verl's padding with reward 0 and no token: the mean is 1/3."""
    rewards, mask = torch.tensor([[1.0], [1.0], [-1.0], [0.0]]), torch.tensor([[1], [1], [1], [0]])
    expected = torch.tensor([[2 / 3], [2 / 3], [-4 / 3], [0.0]])
    torch.testing.assert_close(batch_mean_advantages(rewards, mask), expected)
    assert batch_mean_advantages(rewards, torch.zeros(4, 1)).tolist() == [[0.0]] * 4


def test_garbage_where_no_token_counts_is_ignored_and_elsewhere_reported():
    nan = float("nan")
    mask = torch.tensor([[1, 0], [1, 1]])
    rewards = torch.tensor([[1.0, nan], [0.0, 0.0]])
    assert group_mean_advantages(rewards, mask, [0, 0]).tolist() == [[0.5, 0.0], [-0.5, -0.5]]
    rewards[1, 0] = nan
    for call in (lambda: group_mean_advantages(rewards, mask, [0, 0]), lambda: batch_mean_advantages(rewards, mask)):
        with pytest.raises(FloatingPointError, match=r"token_level_rewards.*\[1\]"):
            call()


def test_wrong_sizes_are_refused():
    with pytest.raises(ValueError, match="mask has"):
        batch_mean_advantages(torch.zeros(3, 2), torch.ones(3, 1))
