"""Bias and noise of the three choices of pi_old with samples of an older policy (docs/off-policy.md)."""

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from rpg.names import DIVERGENCES
from rpg.objectives.proofs.exact import Estimate, Problem, Result, compare, loss_gradient, objective_gradient, spec_loss
from rpg.objectives.proofs.verify import TOLERANCE
from rpg.objectives.spec import LossSpec
from rpg.objectives.tokens import token_loss
from scripts.studies.lab.pi_old import old_policy

STALENESS = (0.0, 0.1, 0.3, 1.0)  # standard deviation of log pi_behaviour - log pi_anchor, before normalisation
# name in the table: choice, threshold of the weight, whether it must be exact without a clip
CHOICES = {
    "recomputed": ("recomputed", math.inf, False),
    "behavior": ("behavior", math.inf, True),
    "decoupled": ("decoupled", math.inf, True),
    "decoupled, weight <= 2": ("decoupled", 2.0, False),
}
UNCLIPPED = tuple(f"{estimator}_{d}" for d in DIVERGENCES for estimator in ("rpg", "rpg_rf"))
CLIPPED = "rpg_rf_urkl_clip_ppo"


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


def measure_choice(name: str, problems: Sequence[Stale]) -> tuple[Result, float, float]:
    """One line of the table; `name` is one of CHOICES.

    Returns the result of the eight unclipped losses; and of RPG-REINFORCE URKL with RPG-Style Clip its bias and the
    share of samples without a gradient.
    """
    choice, threshold, _ = CHOICES[name]
    kl_coef = problems[0].kl_coef
    exact = [LossSpec.parse(loss, kl_coef=kl_coef, clip_scope="none") for loss in UNCLIPPED]
    clipped = LossSpec.parse(CLIPPED, kl_coef=kl_coef)
    return (
        compare(problem.gradient(choice, spec, threshold) for problem in problems for spec in exact),
        compare(problem.gradient(choice, clipped, threshold) for problem in problems).bias,
        statistics.fmean(problem.silenced(choice, clipped) for problem in problems),
    )


def mean_kl(problems: Sequence[Stale]) -> float:
    """KL(behaviour, anchor), averaged."""
    return statistics.fmean((p.log_behavior.exp() * (p.log_behavior - p.log_anchor)).sum().item() for p in problems)


def print_choices_of_pi_old(policies: int, outcomes: int, kl_coef: float, seed: int) -> list[str]:
    """Print error, bias and noise of each choice of pi_old with older samples; returns the failed choices."""
    print(
        f"\nSamples of an older policy: behaviour (samples), anchor (the batch starts from\n"
        f"it), present; {policies} of each, under the three choices of pi_old\n"
        "age: std of the logits between behaviour and anchor\n"
        "error, bias, std: of the eight unclipped losses\n"
        "clip: bias of rpg_rf_urkl_clip_ppo\n"
        "silenced: share of samples that the clip leaves no gradient\n"
    )
    print(
        f"{'age':>4} {'KL':>5}  {'pi_old':<22} {'must be':<7}{'error':>8}{'bias':>8}{'std':>6}"
        f"{'clip':>7}{'silenced':>9}"
    )
    failures = []
    for staleness in STALENESS:
        problems = stale_problems(policies, outcomes, kl_coef, seed, staleness)
        distance = mean_kl(problems)
        for name, (_, _, promised) in CHOICES.items():
            exact = promised or staleness == 0.0  # then behaviour and anchor are one policy
            (error, bias, std), clip_bias, silenced = measure_choice(name, problems)
            print(
                f"{staleness:4g} {distance:5.3f}  {name:<22} {'exact' if exact else '-':<7}{error:8.1e}{bias:8.1e}"
                f"{std:6.3f}{clip_bias:7.1%}{silenced:9.1%}"
            )
            if exact and not error <= TOLERANCE:
                failures.append(f"pi_old={name} at staleness {staleness:g}")
    return failures
