"""The schedule-free optimizer against one that is switched by hand, and the refusals around it."""

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
    """The same training without FSDP and without our engine: train() and eval() called where the paper says."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(torch.nn.Embedding(11, 6), torch.nn.Linear(6, 6), torch.nn.Linear(6, 11))
        self.optimizer = AdamWScheduleFree(self.model.parameters(), lr=3e-2, weight_decay=0.1, warmup_steps=10)

    def iterate(self, iteration: int) -> list[dict[str, torch.Tensor]]:
        """Returns the weights after each optimizer step, which are y's; afterwards the model is at x."""
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


def test_x_is_the_average_that_the_method_defines(group):
    """x_{t+1} = (1 - c) x_t + c z_{t+1}, c = lr_t^2 / sum of lr^2, computed from z's that were kept aside."""
    run = Run("old", "schedule_free")
    x = {name: tensor.double() for name, tensor in full_state(run.actor).items()}
    names = [name for name, _ in run.actor.named_parameters()]
    weights = 0.0
    step = 0

    def average(*_):
        nonlocal weights, step
        step += 1
        lr = 3e-2 * min(1.0, step / 10)
        weights += lr**2
        for name, parameter in zip(names, run.actor.parameters(), strict=True):
            z = run.engine.optimizer.state[parameter]["z"].full_tensor().double()
            x[name] += lr**2 / weights * (z - x[name])

    for iteration in range(20):
        run.iterate(iteration, after_step=average)
    for name, tensor in full_state(run.actor).items():
        # 20 times from x to y and back in float32, each good to 1e-7 of weights of order 1
        torch.testing.assert_close(tensor.double(), x[name], atol=2e-5, rtol=0)


def test_the_first_ratio_is_not_one_and_why(group):
    """pi_old is the policy at x, which sampled; the first mini-batch is evaluated at y."""
    run = Run("old", "schedule_free")
    for iteration in range(5):
        run.iterate(iteration)
    tokens = batches(5, STEPS)[0]
    with torch.no_grad():
        at_x = log_prob(run.actor, tokens)
        with run.engine.train_mode():
            at_y = log_prob(run.actor, tokens)
        back = log_prob(run.actor, tokens)
    assert (at_y - at_x).abs().max() > 1e-3
    # to y and back costs a rounding of the weights, no more
    torch.testing.assert_close(back, at_x, atol=1e-5, rtol=0)


def test_warm_up_is_the_optimizers_own_and_applies_once(group):
    run = Run("old", "schedule_free")
    for iteration in range(8):
        run.iterate(iteration)
    # two optimizer steps an iteration: after iteration i the last step was number 2 (i + 1) of ten
    expected = [3e-2 * min(1.0, STEPS * (i + 1) / 10) for i in range(8)]
    assert [entry["lr"] for entry in run.trace] == pytest.approx(expected)
    assert run.engine.optimizer.param_groups[0]["lr"] == 3e-2


def test_after_an_error_the_weights_are_at_x_again(group):
    run = Run("old", "schedule_free")
    run.iterate(0)
    before = full_state(run.actor)
    with pytest.raises(ZeroDivisionError), run.engine.train_mode():
        raise ZeroDivisionError
    for name, tensor in full_state(run.actor).items():
        torch.testing.assert_close(tensor, before[name], atol=1e-6, rtol=0)
    assert not run.engine.optimizer.param_groups[0]["train_mode"]
