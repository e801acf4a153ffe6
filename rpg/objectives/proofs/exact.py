"""The exact objective J and its gradient for enumerated policies: the ground truth for every loss.

A policy over n outcomes is a softmax of n logits: expectations are sums, and autograd on J gives the exact gradient.
All tensors are float64. The divergences follow their definitions (docs/mathematics.md, "The four objectives") and
share no code with the losses.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from rpg.objectives.spec import LossSpec
from rpg.objectives.tokens import token_loss


@dataclass(frozen=True)
class Problem:
    """One objective J = E_{pi_theta}[A] - beta D over n outcomes.

    Attributes:
        logits: (n,), theta.
        log_old: (n,), log pi_old; the masses add up to z_old.
        log_ref: (n,), log pi_ref.
        advantages: (n,).
        kl_coef: beta.
        z_old: Z_old; samples are drawn from pi_old / Z_old.
    """

    logits: Tensor
    log_old: Tensor
    log_ref: Tensor
    advantages: Tensor
    kl_coef: float
    z_old: float = 1.0


def random_problem(generator: torch.Generator, outcomes: int, kl_coef: float, own_reference: bool) -> Problem:
    """Normal logits and advantages; pi_old and pi_ref are pi_theta with logits moved by normal noise.

    own_reference: whether pi_ref is another policy than pi_old.
    """

    def normal() -> Tensor:
        return torch.randn(outcomes, generator=generator, dtype=torch.float64)

    logits = normal()
    log_old = (logits + normal() / 2).log_softmax(0)
    log_ref = (logits + normal() / 2).log_softmax(0) if own_reference else log_old
    return Problem(logits, log_old, log_ref, normal(), kl_coef)


def divergence_value(name: str, log_prob: Tensor, log_ref: Tensor) -> Tensor:
    """D by its definition, a sum over outcomes; masses need not be 1."""
    prob, ref = log_prob.exp(), log_ref.exp()
    forward, backward = (ref * (log_ref - log_prob)).sum(), (prob * (log_prob - log_ref)).sum()
    mass = prob.sum() - ref.sum()
    return {"fkl": forward, "rkl": backward, "ufkl": forward + mass, "urkl": backward - mass}[name]


def objective_gradient(problem: Problem, divergence: str) -> Tensor:
    """grad J by the logits, (n,)."""
    logits = problem.logits.clone().requires_grad_()
    log_prob = logits.log_softmax(0)
    penalty = problem.kl_coef * divergence_value(divergence, log_prob, problem.log_ref)
    (gradient,) = torch.autograd.grad((log_prob.exp() * problem.advantages).sum() - penalty, logits)
    return gradient


class Result(NamedTuple):
    """Over problems: largest component of |gradient of the expected loss + grad J|, 0 up to rounding for an exact loss;
    mean of |error| / |grad J|."""

    error: float
    bias: float


def compare(gradients: Iterable[tuple[Tensor, Tensor]]) -> Result:
    """The gradients of expected losses against grad J of their objectives; NaN in any is NaN in the result."""
    rows = []
    for of_loss, of_objective in gradients:
        difference = of_loss + of_objective
        rows.append([difference.abs().max(), difference.norm() / of_objective.norm()])
    error, bias = torch.tensor(rows, dtype=torch.float64).T
    return Result(error.max().item(), bias.mean().item())


PerSampleLoss = Callable[[Problem, Tensor], Tensor]  # problem, log pi_theta (n,) -> loss (n,)


def loss_gradient(problem: Problem, loss: PerSampleLoss, normalized: bool) -> Tensor:
    """Gradient of E_{x ~ pi_old}[loss(x)] by the logits.

    normalized: whether the loss's divergence is defined between normalised policies. Its expectation is
    then the sum with pi_old's own masses (which add up to 1 where it applies); otherwise the sum over
    pi_old / Z_old, whose factor Z_old the loss carries.
    """
    logits = problem.logits.clone().requires_grad_()
    log_prob = logits.log_softmax(0)
    measure = problem.log_old.exp() / (1.0 if normalized else problem.z_old)
    (gradient,) = torch.autograd.grad((measure * loss(problem, log_prob)).sum(), logits)
    return gradient


def spec_loss(spec: LossSpec) -> PerSampleLoss:
    """token_loss as a function of an enumerated policy."""

    def loss(problem: Problem, log_prob: Tensor) -> Tensor:
        values, _ = token_loss(
            spec,
            log_prob=log_prob,
            old_log_prob=problem.log_old,
            advantages=problem.advantages,
            ref_log_prob=problem.log_ref,
        )
        return values

    return loss


def grpo_loss(problem: Problem, log_prob: Tensor) -> Tensor:
    """-w A + beta k3(pi_ref / pi_theta): GRPO's KL term, without the importance weight (finding iii)."""
    w = (log_prob - problem.log_old).exp()
    return -w * problem.advantages + problem.kl_coef * _k3(problem.log_ref - log_prob)


def corrected_grpo_loss(problem: Problem, log_prob: Tensor) -> Tensor:
    """-w A + beta w k3(pi_ref / pi_theta) = -w A + beta (rho - w + w log u): its gradient is URKL's."""
    w = (log_prob - problem.log_old).exp()
    return -w * problem.advantages + problem.kl_coef * w * _k3(problem.log_ref - log_prob)


def _k3(log_y: Tensor) -> Tensor:
    """k3(y) = y - 1 - log y."""
    return log_y.exp() - 1 - log_y
