"""One batch with either choice of pi_old on the real stack, where rollout and actor agree."""

import pytest
import torch

from tests.e2e import both_updates, short_run
from tests.e2e.test_stack import ROLLOUT_KL

pytestmark = [pytest.mark.e2e, pytest.mark.full]


def test_sync_behavior_is_sync_recomputed(tmp_path):
    """Where rollout and actor agree, one batch moves the weights alike with either pi_old: 1e-4 of the way.

    4e-6 to 1.3e-5 seen. With verl's warm-up, whose first step has a learning rate of 0 and fills AdamW's moments:
    without it the first step moves every weight by the sign of its gradient, rounding's own gradients as far as any
    other, and 4e-4 of the way is between the two.
    """
    directory, saved = tmp_path / "run", tmp_path / "saved"
    saved.mkdir()
    external = f"actor_rollout_ref.model.external_lib={both_updates.__name__}"
    metrics = short_run.run(directory, 4, external, **{both_updates.DIRECTORY: str(saved)})
    ways = []
    for step, logged in enumerate(metrics, start=1):
        assert abs(logged["rollout_corr/kl"]) < ROLLOUT_KL
        weights = torch.load(saved / f"{step}.pt", weights_only=True)
        before, behavior, recomputed = (
            torch.cat([tensor.flatten() for tensor in weights[name].values()]).double()
            for name in ("before", "behavior", "recomputed")
        )
        ways.append((recomputed - before).norm().item())
        apart = (behavior - recomputed).norm().item()
        print(f"step {step}: {apart:.1e} apart after a way of {ways[-1]:.1e}")
        assert apart <= 1e-4 * ways[-1]
        assert (apart > 0) == (ways[-1] > 0)  # there were two updates
    assert min(ways[1:]) > 1e-2
