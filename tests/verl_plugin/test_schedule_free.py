"""The schedule-free optimizer against one that is switched by hand, and rejected settings."""

import pytest
import torch
from schedulefree import AdamWScheduleFree
from tiny_fsdp import batches, full_state, log_prob, process_group
from training import SPEC, STEPS, Run

from rpg.objectives import token_loss


@pytest.fixture(scope="module")
def group():
    torch.set_num_threads(1)
    with process_group():
        yield


class ByHand:
    """The same training without FSDP and our engine, with train() and eval() called as in the paper."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(torch.nn.Embedding(11, 6), torch.nn.Linear(6, 6), torch.nn.Linear(6, 11))
        self.optimizer = AdamWScheduleFree(self.model.parameters(), lr=3e-2, weight_decay=0.1, warmup_steps=10)

    def iterate(self, iteration: int) -> list[dict[str, torch.Tensor]]:
        """Return the weights y after each optimizer step; afterwards the model is at x."""
        data = batches(iteration, STEPS)
        with torch.no_grad():
            old = [log_prob(self.model, tokens) for tokens in data]
        self.optimizer.train()
        seen = []
        for tokens, o in zip(data, old, strict=True):
            x = log_prob(self.model, tokens)
            advantages = 1.0 - 2.0 * (tokens[:, 1:] % 2)
            loss, _ = token_loss(SPEC, log_prob=x, old_log_prob=o, advantages=advantages)
            loss.mean().backward()
            self.optimizer.step()
            self.optimizer.zero_grad()
            seen.append({name: tensor.clone() for name, tensor in self.model.state_dict().items()})
        self.optimizer.eval()
        return seen


def assert_equal(a: dict, b: dict) -> None:
    assert a.keys() == b.keys()
    for name in a:
        # one rank: the same kernels on the same numbers, so bit for bit
        assert torch.equal(a[name], b[name]), name


def test_gradients_at_y_and_everything_else_at_x(group):
    run, by_hand = Run("old", "schedule_free"), ByHand()
    for iteration in range(20):
        seen = []
        run.iterate(iteration, after_step=lambda *_: seen.append(full_state(run.actor)))  # noqa: B023
        for ours, expected in zip(seen, by_hand.iterate(iteration), strict=True):
            assert_equal(ours, expected)
        assert_equal(full_state(run.actor), by_hand.model.state_dict())
        apart = max((seen[-1][name] - tensor).abs().max() for name, tensor in full_state(run.actor).items())
        assert apart > 1e-4, "x and y are the same point: nothing was tested"


def test_after_an_error_the_weights_are_at_x_again(group):
    run = Run("old", "schedule_free")
    run.iterate(0)
    before = full_state(run.actor)
    with pytest.raises(ZeroDivisionError), run.engine.train_mode():
        raise ZeroDivisionError
    for name, tensor in full_state(run.actor).items():
        torch.testing.assert_close(tensor, before[name], atol=1e-6, rtol=0)
    assert not run.engine.optimizer.param_groups[0]["train_mode"]
