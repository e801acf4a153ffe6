"""The two scopes of the KL against the exact gradient of the KL of responses, by enumeration (docs/mathematics.md).

A policy is a softmax of one row of logits per prefix, float64. D follows its definition over responses and shares no
code with the losses.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from rpg.names import DIVERGENCES, KL_SCOPES, REVERSE
from rpg.objectives.proofs.exact import Estimate, compare, divergence_value
from rpg.objectives.spec import LossSpec
from rpg.objectives.tokens import token_loss

VOCABULARY, LENGTH = 3, 4
TOKENS = torch.cartesian_prod(*[torch.arange(VOCABULARY)] * LENGTH)  # (responses, LENGTH), every response
_PLACE = VOCABULARY ** torch.arange(LENGTH - 1, -1, -1)  # value of a token's digit in the number of its response
# (responses, LENGTH), the prefix of each token: prefixes are numbered by length, then as numbers of base VOCABULARY
PREFIX = TOKENS @ _PLACE.view(-1, 1) // (_PLACE * VOCABULARY) + (VOCABULARY ** torch.arange(LENGTH) - 1) // (
    VOCABULARY - 1
)
DISTANCES = (0.5, 1.0, 2.0)  # standard deviation of the logits of pi_ref less those of pi_old
MOVES = (0.0, 0.1, 0.5, 1.0)  # of pi_theta less pi_old


@dataclass(frozen=True)
class Policies:
    """Logits of pi_theta, pi_old and pi_ref, (prefixes, VOCABULARY)."""

    theta: Tensor
    old: Tensor
    ref: Tensor

    def kl_gradient(self, divergence: str) -> Tensor:
        """Return grad -D of responses by the logits of pi_theta, flat."""
        logits = self.theta.clone().requires_grad_()
        kl = divergence_value(divergence, log_probs(logits).sum(1), log_probs(self.ref).sum(1))
        (gradient,) = torch.autograd.grad(-kl, logits)
        return gradient.flatten()

    def loss_gradient(self, spec: LossSpec) -> Estimate:
        """Return the gradient of the sum of a response's losses without a reward, responses from pi_old."""
        logits, old = self.theta.clone().requires_grad_(), log_probs(self.old)
        log_prob, chance = log_probs(logits), old.sum(1).exp()
        losses, _ = token_loss(
            spec,
            log_prob=log_prob,
            old_log_prob=old,
            advantages=torch.zeros_like(old),
            ref_log_prob=log_probs(self.ref),
        )
        (mean,) = torch.autograd.grad((chance * losses.sum(1)).sum(), logits, retain_graph=True)
        (slopes,) = torch.autograd.grad(losses.sum(), log_prob)
        probs = logits.detach().softmax(1)[PREFIX]
        score = (probs.square().sum(-1) + 1 - 2 * log_prob.detach().exp()) * slopes.square()  # |slope grad log pi|^2
        variance = (chance * score.sum(1)).sum() - mean.square().sum()  # each prefix has logits of its own
        return Estimate(mean.flatten(), variance.clamp(min=0).sqrt().item())


def log_probs(logits: Tensor) -> Tensor:
    """Return the log-probs of every response's tokens, (responses, LENGTH)."""
    return logits.log_softmax(1)[PREFIX, TOKENS]


def draw(number: int, seed: int, distance: float, move: float) -> list[Policies]:
    """Return random policies with normal logits; draws of one seed differ only by `distance` and `move`."""
    generator = torch.Generator().manual_seed(seed)
    shape = (number, 3, int(PREFIX.max()) + 1, VOCABULARY)
    noise = torch.randn(shape, generator=generator, dtype=torch.float64)
    return [Policies(old + move * to_theta, old, old + distance * to_ref) for old, to_theta, to_ref in noise]


class ScopeResult(NamedTuple):
    """A divergence and scope, over the differentiable and the REINFORCE loss, unclipped.

    Attributes:
        divergence, scope: names.
        move: standard deviation of the logits of pi_theta less those of pi_old.
        exact: whether the expected gradient must be that of the KL of responses.
        error: largest component of |gradient of the expected loss + grad -D|.
        bias: mean of |error| / |grad D|, per reference of DISTANCES.
        std: noise of one response, per reference of DISTANCES.
    """

    divergence: str
    scope: str
    move: float
    exact: bool
    error: float
    bias: Sequence[float]
    std: Sequence[float]


def measure_scopes(number: int, seed: int) -> list[ScopeResult]:
    """Compare every divergence, scope and move, over `number` policies per reference."""
    results = []
    for divergence in DIVERGENCES:
        for move in MOVES:
            policies = [draw(number, seed, distance, move) for distance in DISTANCES]
            exact = [[policy.kl_gradient(divergence) for policy in of_distance] for of_distance in policies]
            for scope in KL_SCOPES:
                # the prefix's rho is below exp(100) at these distances, so that no bound holds it
                specs = [
                    LossSpec.parse(name, kl_coef=1.0, clip_scope="none", kl_scope=scope, rho_bound=100.0)
                    for name in (f"rpg_{divergence}", f"rpg_rf_{divergence}")
                ]
                measured = [
                    compare(
                        (policy.loss_gradient(spec), gradient)
                        for spec in specs
                        for policy, gradient in zip(of_distance, gradients, strict=True)
                    )
                    for of_distance, gradients in zip(policies, exact, strict=True)
                ]
                error, bias, std = zip(*measured, strict=True)
                must = scope == "response" and (move == 0 or divergence not in REVERSE)
                results.append(ScopeResult(divergence, scope, move, must, max(error), bias, std))
    return results
