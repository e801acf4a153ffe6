"""The two scopes of the KL against the exact gradient of the KL of responses, by enumeration (docs/mathematics.md).

A policy is a softmax of one row of logits per prefix, float64. D follows its definition over responses and shares no
code with the losses.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from rpg.names import DIVERGENCES, KL_SCOPES, REVERSE
from rpg.objectives.proofs.exact import Result, compare, divergence_value
from rpg.objectives.spec import LossSpec
from rpg.objectives.tokens import token_loss

VOCABULARY, LENGTH = 3, 4
TOKENS = torch.cartesian_prod(*[torch.arange(VOCABULARY)] * LENGTH)  # (responses, LENGTH), every response
_PLACE = VOCABULARY ** torch.arange(LENGTH - 1, -1, -1)  # value of a token's digit in the number of its response
# (responses, LENGTH), the prefix of each token: prefixes are numbered by length, then as numbers of base VOCABULARY
PREFIX = TOKENS @ _PLACE.view(-1, 1) // (_PLACE * VOCABULARY) + (VOCABULARY ** torch.arange(LENGTH) - 1) // (
    VOCABULARY - 1
)
DISTANCE = 1.0  # standard deviation of the logits of pi_ref less those of pi_old
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

    def loss_gradient(self, spec: LossSpec) -> Tensor:
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
        (gradient,) = torch.autograd.grad((chance * losses.sum(1)).sum(), logits)
        return gradient.flatten()


def log_probs(logits: Tensor) -> Tensor:
    """Return the log-probs of every response's tokens, (responses, LENGTH)."""
    return logits.log_softmax(1)[PREFIX, TOKENS]


def draw(number: int, seed: int, move: float) -> list[Policies]:
    """Return random policies with normal logits; draws of one seed differ only by `move`."""
    generator = torch.Generator().manual_seed(seed)
    shape = (number, 3, int(PREFIX.max()) + 1, VOCABULARY)
    noise = torch.randn(shape, generator=generator, dtype=torch.float64)
    return [Policies(old + move * to_theta, old, old + DISTANCE * to_ref) for old, to_theta, to_ref in noise]


def measure_scopes(number: int, seed: int) -> Iterator[tuple[str, str, dict[float, tuple[bool, Result]]]]:
    """Yield divergence, kl_scope, and by move whether the gradient must be exact and what it is.

    Each result is over `number` policies, with the unclipped differentiable and REINFORCE losses.
    """
    for divergence in DIVERGENCES:
        for scope in KL_SCOPES:
            # the prefix's rho is below exp(100) at this distance, so that no bound holds it
            specs = [
                LossSpec.parse(name, kl_coef=1.0, clip_scope="none", kl_scope=scope, rho_bound=100.0)
                for name in (f"rpg_{divergence}", f"rpg_rf_{divergence}")
            ]
            results = {}
            for move in MOVES:
                policies = draw(number, seed, move)
                exact = scope == "response" and (move == 0 or divergence not in REVERSE)
                pairs = [(p.loss_gradient(spec), p.kl_gradient(divergence)) for spec in specs for p in policies]
                results[move] = exact, compare(pairs)
            yield divergence, scope, results
