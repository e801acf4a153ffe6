"""The judgement of tests/e2e/sampled.py: rounding that a policy amplifies is not another policy."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

from tests.e2e import sampled

TOLERANCE = 1e-3
SHARP = 32  # attention logits of a thousand, which float32 rounds by 1e-4: two keys that tie change places


class Tiny(sampled.Policies):
    """Policies of random weights, another of each step; the rounding of their attention is amplified."""

    def _load(self, step: int) -> Any:
        torch.manual_seed(step)
        config = Qwen2Config(
            vocab_size=64, hidden_size=64, intermediate_size=128, num_hidden_layers=3, num_attention_heads=2,
            num_key_value_heads=2, initializer_range=0.3, attn_implementation="sdpa",
        )  # fmt: skip
        model = Qwen2ForCausalLM(config)
        with torch.no_grad():
            for name, tensor in model.named_parameters():
                tensor *= SHARP if name.endswith("q_proj.weight") else 1
        return model


@pytest.fixture(scope="module")
def policies() -> Tiny:
    return Tiny(Path())


@pytest.fixture(scope="module")
def response(policies) -> sampled.Response:
    """Return a response with the log-probs of policy 0 in float32, as vLLM computes them."""
    ids = torch.randint(64, (160,), generator=torch.Generator().manual_seed(1))
    response = sampled.Response("group", ids[:32], ids[32:], torch.empty(0), torch.empty(0), 0, 0)
    [rounded] = sampled._log_probs(policies._load(0).eval(), [response])
    return replace(response, rollout_log_probs=rounded)


def test_a_rounded_log_prob_is_of_its_policy(policies, response):
    exact = dict(enumerate(policies.log_probs(step, [response])[0] for step in range(2)))
    away = (exact[0] - response.rollout_log_probs).abs()
    assert away.max() > TOLERANCE
    assert sampled.written_by(response, exact, TOLERANCE) is None  # as if another policy had written it
    assert policies.writers(response, exact, TOLERANCE) == [0] * len(response.tokens)
    assert f"away {away[0]:.0e}" in policies.trace(2, response)


def test_a_log_prob_of_another_policy_is_not(policies, response):
    exact = dict(enumerate(policies.log_probs(step, [response])[0] for step in range(2)))
    calm = int(policies.rounding(0, response).argmin())
    assert policies.writers(replace(response, rollout_log_probs=exact[1]), exact, TOLERANCE) is None
    one = response.rollout_log_probs.clone()
    one[calm] += 2 * TOLERANCE
    assert policies.writers(replace(response, rollout_log_probs=one), exact, TOLERANCE) is None
