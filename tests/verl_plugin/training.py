"""Iterations of verl's synchronous trainer on the tiny model, with any reference and optimizer."""

from dataclasses import dataclass, field

import torch
from schedulefree import AdamWScheduleFree
from tiny_fsdp import batches, build, log_prob

from rpg.objectives import LossSpec, token_loss
from rpg.verl_plugin.actor_loss import token_kl
from rpg.verl_plugin.reference import Reference
from rpg.verl_plugin.schedule_free import ScheduleFreeEngine

STEPS = 2  # optimizer steps an iteration
SPEC = LossSpec.parse("rpg_rf_urkl_clip_ppo", kl_coef=0.1, clip_low=0.2, clip_high=0.28)

MODES = {
    "old": {},
    "fixed": {},
    "every_k": {"every_k": 5},
    "kl_target": {"kl_target": 2e-3, "kl_ema": 0.5},
}


class PlainEngine:
    """The part of verl's engine that controls the optimizer's mode: nested contexts."""

    def __init__(self, module: torch.nn.Module, optimizer: torch.optim.Optimizer):
        self.module, self.optimizer = module, optimizer

    def train_mode(self, **kwargs):
        return torch.enable_grad()


class Engine(ScheduleFreeEngine, PlainEngine):
    """The engine of the worker."""


def optimizer_for(name: str, parameters) -> torch.optim.Optimizer:
    if name == "adamw":
        return torch.optim.AdamW(parameters, lr=3e-2, weight_decay=0.1)
    return AdamWScheduleFree(parameters, lr=3e-2, weight_decay=0.1, warmup_steps=10)


@dataclass
class Run:
    """One training of the tiny model; `trace` has one entry per iteration."""

    mode: str
    optimizer: str = "adamw"
    trace: list[dict] = field(default_factory=list)

    def __post_init__(self):
        self.actor = build()
        self.engine = Engine(self.actor, optimizer_for(self.optimizer, self.actor.parameters()))
        self.reference = None
        if self.mode != "old":
            self.reference = Reference(self.actor, build(offload=True), self.mode, **MODES[self.mode])

    def iterate(self, iteration: int, after_step=lambda: None) -> None:
        """Run an iteration: old log-probs, reference log-probs, STEPS optimizer steps."""
        data = batches(iteration, STEPS)
        with torch.no_grad():
            old = [log_prob(self.actor, tokens) for tokens in data]
            ref = [None] * STEPS
            if self.reference is not None:
                self.reference.begin_iteration()
                ref = [log_prob(self.reference.model, tokens) for tokens in data]
        with self.engine.train_mode():
            for tokens, o, r in zip(data, old, ref, strict=True):
                with self.engine.train_mode():  # verl enters it for each mini-batch once more
                    # reward 1 for every even token: something to learn
                    advantages = 1.0 - 2.0 * (tokens[:, 1:] % 2)
                    x = log_prob(self.actor, tokens)
                    loss, _ = token_loss(SPEC, log_prob=x, old_log_prob=o, advantages=advantages, ref_log_prob=r)
                    loss.mean().backward()
                    self.engine.optimizer.step()
                    self.engine.optimizer.zero_grad()
                    after_step()
        entry = {"old": old, "ref": ref}
        if self.reference is not None:  # all mini-batches have equally many tokens
            kl = torch.stack([token_kl(o, r).mean() for o, r in zip(old, ref, strict=True)]).mean()
            self.reference.end_iteration(STEPS, kl.item())
            entry |= self.reference.metrics()
        self.trace.append(entry)
