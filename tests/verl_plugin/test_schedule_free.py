"""The schedule-free optimizer under FSDP2 against one that is switched by hand."""

from collections.abc import Callable
from contextlib import contextmanager, nullcontext

import torch
from schedulefree import AdamWScheduleFree
from tiny_fsdp import VOCABULARY, build, process_group, unsharded
from torch.distributed.tensor import DTensor

from rpg.verl_plugin.schedule_free import ScheduleFreeEngine


class PlainEngine:
    """The part of verl's engine that controls the optimizer's mode: nested contexts."""

    def __init__(self, module: torch.nn.Module):
        self.module = module
        self.optimizer = AdamWScheduleFree(module.parameters(), lr=3e-2, weight_decay=0.1, warmup_steps=10)

    def train_mode(self, **kwargs):
        return torch.enable_grad()


class Engine(ScheduleFreeEngine, PlainEngine):
    """The order of the worker's engine."""


def state(module: torch.nn.Module) -> dict[str, torch.Tensor]:
    parts = module.state_dict().items()
    return {name: (part.full_tensor() if isinstance(part, DTensor) else part).clone() for name, part in parts}


def iterate(engine: PlainEngine, mini_batches: torch.Tensor, outer: Callable, inner: Callable) -> list[dict]:
    """Return the weights after each optimizer step and after the iteration, whose old outputs are in the loss."""
    with torch.no_grad():
        old = [engine.module(tokens) for tokens in mini_batches]
    seen = []
    with outer():
        for tokens, before in zip(mini_batches, old, strict=True):
            with inner():
                outputs = engine.module(tokens)
                fit = torch.nn.functional.cross_entropy(outputs.flatten(0, 1), tokens.roll(-1, 1).flatten())
                (fit + (outputs - before).square().mean()).backward()
                engine.optimizer.step()
                engine.optimizer.zero_grad()
                seen.append(state(engine.module))
    return [*seen, state(engine.module)]


def test_gradients_at_y_and_everything_else_at_x():
    """As verl's worker, which enters the mode for an iteration and again for each mini-batch."""
    with process_group():
        ours, by_hand = Engine(build()), PlainEngine(unsharded())

        @contextmanager
        def at_y():
            by_hand.optimizer.train()
            yield
            by_hand.optimizer.eval()

        for iteration in range(20):
            generator = torch.Generator().manual_seed(iteration)
            mini_batches = torch.randint(VOCABULARY, (2, 4, 6), generator=generator)
            found = iterate(ours, mini_batches, ours.train_mode, ours.train_mode)
            # one rank: the same kernels on the same numbers, so bit for bit
            expected = iterate(by_hand, mini_batches, at_y, nullcontext)
            torch.testing.assert_close(found, expected, rtol=0, atol=0)
            apart = max((found[-2][name] - tensor).abs().max() for name, tensor in found[-1].items())
            assert apart > 1e-4, "x and y are the same point: nothing was tested"
