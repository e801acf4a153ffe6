"""Equal gradients of the paper's eight rows and DAPO at its beta, and zero gradients of verl's k3."""

import pytest
import torch

from scripts.studies.lab.fixed_point import verls_k3
from scripts.studies.lab.identity import SPREADS, differences

pytestmark = pytest.mark.full  # the laboratory, no part of the product
torch.set_num_threads(1)


@pytest.mark.parametrize("spread", SPREADS)
def test_the_eight_rows_differ_by_parts_in_ten_thousand(spread):
    difference = differences(spread)
    assert difference.kinds < 1e-12
    assert 1e-5 < difference.divergences < 5e-4
    assert 1e-5 < difference.rows < 5e-4


@pytest.mark.parametrize("spread", SPREADS)
def test_dapos_loss_is_rpg_reinforce_urkls(spread):
    """verl's vanilla has no KL: what is left is beta log w, and beta is 1e-4."""
    assert 1e-7 < differences(spread).dapo < 2e-5
    assert differences(spread, kl_coef=0).dapo < 1e-12


def test_at_a_large_beta_the_divergences_differ_and_the_two_kinds_do_not():
    difference = differences(0.15, kl_coef=0.1)
    assert difference.kinds < 1e-12
    assert difference.divergences > 0.1
    assert difference.dapo > 0.01


@pytest.mark.parametrize(("log_ratio", "pulled"), [(2.6, True), (2.7, False)])
def test_verls_clamp_ends_the_gradient_of_a_token_that_became_rare(log_ratio, pulled):
    """k3 = r - log r - 1 is 9.9 at log r = 2.6 and 11.2 at 2.7; verl clamps it at 10."""
    present = torch.full((1, 1), -2.0 - log_ratio, requires_grad=True)
    verls_k3(present, torch.full((1, 1), -2.0)).backward()
    assert (present.grad.item() != 0) == pulled
