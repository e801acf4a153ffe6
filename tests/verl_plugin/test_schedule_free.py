"""The schedule-free optimizer under FSDP2 against one that is switched by hand."""

import torch
from schedulefree import AdamWScheduleFree
from tiny_fsdp import batches, build, full_state, log_prob, process_group, unsharded

from rpg.objectives import LossSpec, token_loss
from rpg.verl_plugin.schedule_free import ScheduleFreeEngine

STEPS = 2  # optimizer steps an iteration
SPEC = LossSpec.parse("rpg_rf_urkl_clip_ppo", kl_coef=0.1, clip_low=0.2, clip_high=0.28)


class PlainEngine:
    """The part of verl's engine that controls the optimizer's mode: nested contexts."""

    def __init__(self, module: torch.nn.Module):
        self.module = module
        self.optimizer = AdamWScheduleFree(module.parameters(), lr=3e-2, weight_decay=0.1, warmup_steps=10)

    def train_mode(self, **kwargs):
        return torch.enable_grad()


class Engine(ScheduleFreeEngine, PlainEngine):
    """The order of the worker's engine."""


def old_log_probs(engine: PlainEngine, data: list[torch.Tensor]) -> list[torch.Tensor]:
    with torch.no_grad():
        return [log_prob(engine.module, tokens) for tokens in data]


def step(engine: PlainEngine, tokens: torch.Tensor, old: torch.Tensor) -> dict[str, torch.Tensor]:
    """Return the weights after an optimizer step."""
    advantages = 1.0 - 2.0 * (tokens[:, 1:] % 2)  # reward 1 for every even token: something to learn
    x = log_prob(engine.module, tokens)
    loss, _ = token_loss(SPEC, log_prob=x, old_log_prob=old, advantages=advantages)
    loss.mean().backward()
    engine.optimizer.step()
    engine.optimizer.zero_grad()
    return full_state(engine.module)


def iterate(engine: Engine, data: list[torch.Tensor]) -> list[dict[str, torch.Tensor]]:
    """Return the weights after each optimizer step, as in verl's worker, which enters the mode twice."""
    old, seen = old_log_probs(engine, data), []
    with engine.train_mode():
        for tokens, o in zip(data, old, strict=True):
            with engine.train_mode():
                seen.append(step(engine, tokens, o))
    return seen


def iterate_by_hand(engine: PlainEngine, data: list[torch.Tensor]) -> list[dict[str, torch.Tensor]]:
    """Return the same without our engine and FSDP, with train() and eval() called as in the paper."""
    old = old_log_probs(engine, data)
    engine.optimizer.train()
    seen = [step(engine, tokens, o) for tokens, o in zip(data, old, strict=True)]
    engine.optimizer.eval()
    return seen


def test_gradients_at_y_and_everything_else_at_x():
    with process_group():
        ours, by_hand = Engine(build()), PlainEngine(unsharded())
        for iteration in range(20):
            data = batches(iteration, STEPS)
            at_y, at_x = iterate(ours, data), full_state(ours.module)
            expected = [*iterate_by_hand(by_hand, data), full_state(by_hand.module)]
            # one rank: the same kernels on the same numbers, so bit for bit
            torch.testing.assert_close([*at_y, at_x], expected, rtol=0, atol=0)
            apart = max((at_y[-1][name] - tensor).abs().max() for name, tensor in at_x.items())
            assert apart > 1e-4, "x and y are the same point: nothing was tested"
