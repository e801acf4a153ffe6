"""Samplers mu that are not the policy pi: w, KL and gradients before any update, by enumeration (docs/off-policy.md).

python -m scripts.studies.lab.sampler   prints the table
"""

import math

import torch
from torch import Tensor

from scripts.studies.common import markdown

PREFIXES, TOKENS = 200, 32
SPREAD = 2.0  # standard deviation of the logits: 2.1 nats of entropy
# vLLM's sampling parameters; "bad_words" leaves out one token, as do allowed_token_ids, min_tokens and grammars
SAMPLERS = (
    ("top_p", 1.0), ("top_p", 0.99), ("top_p", 0.95), ("top_p", 0.8), ("top_k", 5), ("min_p", 0.1), ("bad_words", 1),
    ("logit_bias", 1.0), ("repetition_penalty", 1.1), ("presence_penalty", 1.0), ("frequency_penalty", 1.0),
)  # fmt: skip


def policies(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Return logits, advantages and counts in the text so far (a third of the tokens have some); (prefixes, tokens)."""
    generator = torch.Generator().manual_seed(seed)
    logits, advantages = torch.randn(2, PREFIXES, TOKENS, generator=generator, dtype=torch.float64)
    counts = torch.randint(-5, 4, logits.shape, generator=generator).clamp(min=0)
    return SPREAD * logits, advantages, counts


def sampled(parameter: str, value: float, logits: Tensor, counts: Tensor) -> Tensor:
    """Return the logits that vLLM samples from, -inf for tokens left out; shapes as of `policies`."""
    probabilities, first = logits.softmax(-1), torch.arange(TOKENS) == 0
    if parameter == "top_p":
        ordered, order = probabilities.sort(-1, descending=True)
        more_likely = torch.zeros_like(ordered).scatter(-1, order, ordered.cumsum(-1) - ordered)
        return logits.masked_fill(more_likely >= value, -math.inf)
    if parameter == "top_k":
        return logits.masked_fill(logits < logits.topk(int(value)).values[..., -1:], -math.inf)
    if parameter == "min_p":
        return logits.masked_fill(probabilities < value * probabilities.amax(-1, keepdim=True), -math.inf)
    if parameter == "bad_words":
        return logits.masked_fill(first, -math.inf)
    if parameter == "repetition_penalty":
        return torch.where(counts > 0, torch.where(logits > 0, logits / value, logits * value), logits)
    added = {"logit_bias": first, "presence_penalty": -(counts > 0).int(), "frequency_penalty": -counts}
    return logits + value * added[parameter]


def row(parameter: str, value: float) -> list[float]:
    """Return E_mu[w], max w and KL(mu, pi) of w = pi / mu; for w and for 1 as the weight of grad log pi, the bias.

    Then, for both weights, the length of a baseline's gradient. Means over prefixes; the bias is relative to
    grad E_pi[A], with A less its mean under mu, as of a large group.
    """
    logits, advantages, counts = policies()
    log_prob = logits.log_softmax(-1)
    log_mu = sampled(parameter, value, logits, counts).log_softmax(-1)
    prob, mu = log_prob.exp(), log_mu.exp()
    w = torch.where(mu > 0, (log_prob - log_mu).exp(), 0.0)
    kl = torch.where(mu > 0, mu * (log_mu - log_prob), 0.0).sum(-1)
    centred = advantages - (mu * advantages).sum(-1, keepdim=True)

    def gradient(masses: Tensor) -> Tensor:  # sum of mass(x) grad log pi(x), by the logits
        return masses - masses.sum(-1, keepdim=True) * prob

    objective = gradient(prob * advantages)
    weights = (w, torch.ones_like(w))
    biases = [(gradient(mu * c * centred) - objective).norm(dim=-1) / objective.norm(dim=-1) for c in weights]
    baselines = [gradient(mu * c).norm(dim=-1) for c in weights]
    means = [cells.mean().item() for cells in ((mu * w).sum(-1), kl, *biases, *baselines)]
    return [means[0], w.max().item(), *means[1:]]


def table() -> str:
    """Return Markdown."""
    head = ["sampler", "E_mu[w]", "max w", "KL(mu, pi)", "bias, `behavior`", "bias, `recomputed`"]
    rows = []
    for parameter, value in SAMPLERS:
        mean, largest, kl, *biases = row(parameter, value)[:5]
        rows.append([f"{parameter} {value:g}", f"{mean:.3f}", f"{largest:.2f}", f"{kl:.3f}"])
        rows[-1] += [f"{bias:.2f}" for bias in biases]
    return markdown(head, rows)


if __name__ == "__main__":
    print(table())
