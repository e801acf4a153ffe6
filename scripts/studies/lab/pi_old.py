"""The three choices of pi_old for samples of an older policy: bias and noise (docs/off-policy.md)."""

import math
import statistics
from dataclasses import dataclass
from typing import NamedTuple

import pandas as pd
import torch
from torch import Tensor

from rpg.names import DIVERGENCES, PI_OLD
from rpg.objectives.losses import MAX_LOG_RATIO
from rpg.objectives.proofs.exact import Estimate, Problem, compare, loss_gradient, objective_gradient, spec_loss
from rpg.objectives.spec import LossSpec
from rpg.objectives.tokens import token_loss

STALENESS = (0.0, 0.1, 0.3, 1.0)  # standard deviation of log pi_behaviour - log pi_anchor, before normalisation
# name in the table: choice, threshold of the weight, whether it must be exact without a clip
CHOICES = {
    "recomputed": ("recomputed", math.inf, False),
    "behavior": ("behavior", math.inf, True),
    "decoupled": ("decoupled", math.inf, True),
    "decoupled, cut at 2": ("decoupled", 2.0, False),
}
UNCLIPPED = tuple(f"{estimator}_{d}" for d in DIVERGENCES for estimator in ("rpg", "rpg_rf"))
CLIPPED = "rpg_rf_urkl_clip_ppo"
LEVELS = ("token", "sequence")


class OldPolicy(NamedTuple):
    """The inputs of a loss.

    Attributes:
        log_prob: log pi_old, the denominator of w.
        weights: factor of each token's loss; None means 1.
    """

    log_prob: Tensor
    weights: Tensor | None


def old_policy(
    choice: str, *, behavior: Tensor, anchor: Tensor, level: str = "token", threshold: float = math.inf
) -> OldPolicy:
    """The pi_old and weights of a choice.

    recomputed: the anchor, without a weight (verl's default). Exact only if the anchor sampled.
    behavior: the policy that sampled (verl's bypass_mode).
    decoupled: the anchor, times anchor / behaviour (verl's rollout_is).

    Args:
        choice: one of PI_OLD.
        behavior, anchor: (..., tokens), log-probs of the sampled tokens under the policy that sampled them, and
            under the policy that the batch's first optimizer step starts from.
        level: of the weight of `decoupled`: "token", or "sequence", the product over the last dimension.
        threshold: upper limit of the weight; verl's default is 2, infinity means none. Log-ratios are clamped at
            +-20 first, as in verl.

    Raises:
        ValueError: an unknown choice or level, a threshold of 0 or less.
    """
    for name, value, known in (("pi_old", choice, PI_OLD), ("level", level, LEVELS)):
        if value not in known:
            raise ValueError(f"{name}={value!r} is not one of {', '.join(known)}")
    if not threshold > 0:
        raise ValueError(f"threshold={threshold!r} must be above 0")
    if choice == "behavior":
        return OldPolicy(behavior, None)
    if choice == "recomputed":
        return OldPolicy(anchor, None)
    log_weight = (anchor - behavior).detach()
    if level == "sequence":
        log_weight = log_weight.sum(-1, keepdim=True).expand_as(anchor)
    return OldPolicy(anchor, log_weight.clamp(-MAX_LOG_RATIO, MAX_LOG_RATIO).exp().clamp(max=threshold))


@dataclass(frozen=True)
class Stale:
    """Three policies over n outcomes: behaviour (samples), anchor (start of the batch), present (theta).

    Attributes:
        logits: (n,), theta.
        log_behavior, log_anchor: (n,).
        log_ref: (n,), or None for pi_ref = pi_old, the paper's.
        advantages: (n,).
        kl_coef: beta.
    """

    logits: Tensor
    log_behavior: Tensor
    log_anchor: Tensor
    log_ref: Tensor | None
    advantages: Tensor
    kl_coef: float

    def gradient(self, choice: str, spec: LossSpec, threshold: float = math.inf) -> tuple[Estimate, Tensor]:
        """The loss's gradient under samples of the behaviour policy, and grad J of the choice's own objective.

        J = E_{pi_theta}[A] - beta D; D uses log_ref or, if that is None, the choice's pi_old.
        """
        old, weights = old_policy(choice, behavior=self.log_behavior, anchor=self.log_anchor, threshold=threshold)
        log_ref = old if self.log_ref is None else self.log_ref
        problem = Problem(self.logits, old, log_ref, self.advantages, self.kl_coef)
        unweighted = spec_loss(spec)

        def loss(problem: Problem, log_prob: Tensor) -> Tensor:
            losses = unweighted(problem, log_prob)
            return losses if weights is None else losses * weights

        estimate = loss_gradient(problem, loss, normalized=True, log_sampler=self.log_behavior)
        return estimate, objective_gradient(problem, spec.divergence)

    def silenced(self, choice: str, spec: LossSpec) -> float:
        """Probability under the behaviour policy of an outcome whose gradient the clip sets to 0."""
        old = old_policy(choice, behavior=self.log_behavior, anchor=self.log_anchor).log_prob
        _, stats = token_loss(
            spec,
            log_prob=self.logits.log_softmax(0),
            old_log_prob=old,
            advantages=self.advantages,
            ref_log_prob=self.log_ref,
        )
        clipped = stats.clipped_high | stats.clipped_low | stats.clipped_c
        return (self.log_behavior.exp() * clipped).sum().item()


def stale_problems(policies: int, outcomes: int, kl_coef: float, seed: int, staleness: float) -> list[Stale]:
    """Random anchors; behaviour and present are the anchor with logits moved by normal noise of std `staleness`
    and 0.1. Every second one has another reference. Draws of one seed differ only by `staleness`."""
    generator = torch.Generator().manual_seed(seed)

    def normal() -> Tensor:
        return torch.randn(outcomes, generator=generator, dtype=torch.float64)

    problems = []
    for number in range(policies):
        anchor, to_behavior, to_present, to_reference, advantages = (normal() for _ in range(5))
        problems.append(
            Stale(
                logits=anchor + 0.1 * to_present,
                log_behavior=(anchor + staleness * to_behavior).log_softmax(0),
                log_anchor=anchor.log_softmax(0),
                log_ref=(anchor + to_reference / 2).log_softmax(0) if number % 2 else None,
                advantages=advantages,
                kl_coef=kl_coef,
            )
        )
    return problems


def choice_table(policies: int = 50, outcomes: int = 12, kl_coef: float = 0.1, seed: int = 0) -> pd.DataFrame:
    """Return one line per staleness and choice.

    Columns: label, staleness, kl (of behaviour and anchor, mean), exact (whether it must be), error, bias and noise (of
    the eight unclipped losses, as in rpg.objectives.proofs.exact.Result); of RPG-REINFORCE URKL with RPG-Style Clip
    clip_bias and silenced, the share of samples without a gradient.
    """
    exact = [LossSpec.parse(loss, kl_coef=kl_coef, clip_scope="none") for loss in UNCLIPPED]
    clipped = LossSpec.parse(CLIPPED, kl_coef=kl_coef)
    rows = []
    for staleness in STALENESS:
        problems = stale_problems(policies, outcomes, kl_coef, seed, staleness)
        kls = [(p.log_behavior.exp() * (p.log_behavior - p.log_anchor)).sum().item() for p in problems]
        for label, (choice, threshold, must) in CHOICES.items():
            error, bias, noise = compare(p.gradient(choice, spec, threshold) for p in problems for spec in exact)
            row = {
                "label": label,
                "staleness": staleness,
                "kl": statistics.fmean(kls),
                "exact": must or staleness == 0.0,  # then behaviour and anchor are one policy
                "error": error,
                "bias": bias,
                "noise": noise,
                "clip_bias": compare(p.gradient(choice, clipped, threshold) for p in problems).bias,
                "silenced": statistics.fmean(p.silenced(choice, clipped) for p in problems),
            }
            rows.append(row)
    return pd.DataFrame(rows)
