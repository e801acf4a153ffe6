"""Fixed points with a fixed reference; closed forms for responses of one token."""

import math

import pytest
import torch

from scripts.studies.lab.fixed_point import FORMS, OF_RESPONSES, fixed_point, kl_losses
from scripts.studies.lab.task import Task

pytestmark = pytest.mark.full  # the laboratory, no part of the product
torch.set_num_threads(1)

ONE_TOKEN = Task.make(prompts=3, vocabulary=5, positions=1, states=5)


@pytest.mark.parametrize("form", [form for form in FORMS if form != OF_RESPONSES])
def test_the_expected_gradient_is_that_of_one_of_two_divergences(form):
    """On-policy, unnormalised and normalised KLs agree, and k3 without a weight is the forward KL."""
    generator = torch.Generator().manual_seed(0)
    logits, reference = (torch.randn(1, 2, 8, 3, 1, generator=generator, dtype=torch.float64) / 3 for _ in range(2))
    logits.requires_grad_()
    reference = reference.log_softmax(2)
    present = logits.log_softmax(2)
    (gradient,) = torch.autograd.grad((present.exp().detach() * kl_losses(form, present, reference)).sum(), logits)
    present = logits.log_softmax(2)
    kl = present.exp() * (present - reference) if "RKL" in form else reference.exp() * (reference - present)
    (expected,) = torch.autograd.grad(kl.sum(), logits)
    torch.testing.assert_close(gradient, expected)


@pytest.mark.parametrize("form", ["RKL", "verl's k3", OF_RESPONSES])
def test_the_fixed_point_of_one_token(form):
    """Reward 1 for one of 5 tokens, beta 0.3. Reverse: odds (1 / 4) e^(1 / beta). Forward: a token with reward R has
    beta / 5 / (x - R), where x makes the sum 1: x = 1.0772. No token is so rare there that verl's clamp acts."""
    beta = 0.3
    reverse = 1 / (1 + 4 * math.exp(-1 / beta))
    b = 1 + beta  # beta / 5 / (x - 1) + 4 beta / 5 / x = 1: x^2 - (1 + beta) x + 4 beta / 5 = 0
    x = (b + math.sqrt(b * b - 4 * 4 * beta / 5)) / 2
    expected = reverse if form.startswith("RKL") else beta / 5 / (x - 1)
    measured = fixed_point(form, beta, seeds=2, task=ONE_TOKEN)
    torch.testing.assert_close(measured["reward"], torch.full_like(measured["reward"], expected), atol=1e-3, rtol=0)


def test_only_the_kl_of_responses_leads_to_the_maximum_of_j():
    """Beta 0.3; J, with a reverse KL, is compared with a closed form."""
    task = Task.make(prompts=3, vocabulary=3, positions=3, states=5)
    gap = {form: fixed_point(form, 0.3, seeds=2, task=task)["gap"] for form in ("RKL", OF_RESPONSES)}
    assert gap[OF_RESPONSES].abs().max() < 1e-4
    assert gap["RKL"].min() > 5e-3
