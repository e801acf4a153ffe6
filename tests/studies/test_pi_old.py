"""Samples of an older policy: `behavior` and `decoupled` are exact, `recomputed` has a known bias."""

import pytest
import torch

from scripts.studies.lab import pi_old
from scripts.studies.lab.pi_old import old_policy

pytestmark = pytest.mark.full  # the laboratory, no part of the product
torch.set_num_threads(1)

# Logits within +-3 keep every weight below e^6 twice over and gradients below 1e5: rounding is 1e-11 at most.
TOLERANCE = 1e-10


@pytest.mark.parametrize("level", ["token", "sequence"])
@pytest.mark.parametrize("threshold", [2.0, 5.0, 1e9])
def test_the_weights_are_verls(level, threshold):
    from verl.trainer.ppo.rollout_corr_helper import compute_rollout_correction_weights

    generator = torch.Generator().manual_seed(0)
    behavior = -torch.rand(6, 9, generator=generator) * 4
    anchor = behavior + torch.randn(6, 9, generator=generator)
    anchor[0] += 30.0  # beyond the clamp at 20
    ours = old_policy("decoupled", behavior=behavior, anchor=anchor, level=level, threshold=threshold)
    theirs, _ = compute_rollout_correction_weights(
        anchor - behavior, torch.ones_like(anchor), rollout_is=level, rollout_is_threshold=threshold
    )
    assert (ours.weights > 1).any()
    torch.testing.assert_close(ours.weights, theirs, rtol=1e-5, atol=0)
    assert ours.log_prob is anchor


def test_what_must_be_exact_is_exact_in_the_table_and_not_without_its_weight(monkeypatch):
    table = pi_old.choice_table(2, 4)
    assert len(table) == len(pi_old.CHOICES) * len(pi_old.STALENESS)
    assert (table.error[table.exact] <= TOLERANCE).all()
    # without the weight, decoupled is recomputed
    monkeypatch.setattr(pi_old, "old_policy", lambda choice, **given: old_policy("recomputed", **given))
    wrong = pi_old.choice_table(2, 4).query("exact and error > @TOLERANCE")
    assert set(wrong.label) == {"behavior", "decoupled"}
    assert set(wrong.staleness) == set(pi_old.STALENESS) - {0.0}
