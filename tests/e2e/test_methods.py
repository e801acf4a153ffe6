"""Every method by one of its scripts on the real stack: three or six steps that change the weights.

Rollouts of two runs may differ: tests/recipe/test_updates.py compares the methods on one batch.
"""

import pytest
import torch
from safetensors.torch import load_file

from tests.e2e import short_run
from tests.e2e.conftest import ROOT, TOY
from tests.e2e.test_stack import ROLLOUT_KL

pytestmark = [pytest.mark.e2e, pytest.mark.full]


# The other scripts of a method differ from these in a number or a divergence, which unit tests compare.
@pytest.mark.parametrize(
    ("name", "count"),
    [
        ("dapo_cpu", 3),
        ("grpo_cpu", 3),
        ("grpo_corrected_cpu", 3),
        ("rfpp_cpu_1e-4", 3),
        ("rfppb_cpu_1e-4", 3),
        ("rpg_cpu", 3),
        ("rpg_cpu_fkl1e-4", 3),
        ("rpg_cpu_ufkl1e-4_rf", 3),
        ("rpg_cpu_rkl1e-4_rf_clip_ppo_0.1_0.1", 3),
        ("dr_grpo_cpu", 6),
        ("gspo_cpu", 6),
        ("cispo_cpu", 6),
        ("dppo_cpu", 6),
        ("sapo_cpu", 6),
        ("kl_in_reward_cpu_1e-4", 6),
    ],
)
def test_steps(name, count, tmp_path):
    # verl's warm-up begins with a step of size 0
    settings = ["trainer.save_freq=1", "actor_rollout_ref.actor.optim.lr_warmup_steps=0", "data.seed=1"]
    steps = short_run.run(tmp_path, count, *settings, script=ROOT / f"recipe/rpg/cpu/run_{name}.sh")
    assert [step["step"] for step in steps] == [*range(1, count + 1)]
    for step in steps:
        assert 0 < step["actor/grad_norm"] < 100
        assert abs(step["rollout_corr/kl"]) < ROLLOUT_KL  # the rollouts are those of this policy
    after = short_run.actor(tmp_path, 1)
    before = load_file(TOY / "model" / "model.safetensors")
    assert not all(torch.equal(after[key].float(), value.float()) for key, value in before.items())
