"""Every method by one of its scripts on the real stack: three steps that change the weights."""

import pytest
import torch
from safetensors.torch import load_file

from tests.e2e import short_run
from tests.e2e.conftest import ROOT, TOY
from tests.e2e.test_stack import ROLLOUT_KL

pytestmark = [pytest.mark.e2e, pytest.mark.full]


# The other scripts of a method differ from these in a number or a divergence, which unit tests compare.
NAMES = ["dapo_cpu", "grpo_cpu", "grpo_corrected_cpu", "rfpp_cpu_1e-4", "rfppb_cpu_1e-4", "rpg_cpu",
         "rpg_cpu_ufkl1e-4_rf", "dr_grpo_cpu", "gspo_cpu", "cispo_cpu", "dppo_cpu", "sapo_cpu",
         "kl_in_reward_cpu_1e-4"]  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_steps(name, tmp_path):
    # verl's warm-up begins with a step of size 0
    settings = ["trainer.save_freq=1", "actor_rollout_ref.actor.optim.lr_warmup_steps=0", "data.seed=1"]
    steps = short_run.run(tmp_path, 3, *settings, script=ROOT / f"recipe/rpg/cpu/run_{name}.sh")
    assert [step["step"] for step in steps] == [1, 2, 3]
    for step in steps:
        assert 0 < step["actor/grad_norm"] < float("inf")
        assert abs(step["rollout_corr/kl"]) < ROLLOUT_KL  # the rollouts are those of this policy
    after = short_run.actor(tmp_path, 1)
    before = load_file(TOY / "model" / "model.safetensors")
    assert not all(torch.equal(after[key].float(), value.float()) for key, value in before.items())
