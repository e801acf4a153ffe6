"""A run with the own loss of docs/train_your_own.md and an own estimator: trained, resumed, refused when changed."""

from pathlib import Path

import pytest

from tests.e2e import short_run
from tests.e2e.conftest import ROOT
from tests.test_train_your_own import blocks

METRIC = "actor/mine_at_the_bound"
ESTIMATOR = """
from verl.trainer.ppo.core_algos import register_adv_est

@register_adv_est("mine")
def quarter(token_level_rewards, response_mask, **_):
    advantages = 0.25 * response_mask
    return advantages, advantages
"""
SCRIPT = ROOT / "recipe/rpg/cpu/run_dapo_cpu.sh"


@pytest.mark.e2e
@pytest.mark.full
def test_an_own_loss(tmp_path: Path):
    source = blocks("Your loss or estimator", "python")[0]
    loss, estimator, run = tmp_path / "mine.py", tmp_path / "estimator.py", tmp_path / "run"
    loss.write_text(source)
    estimator.write_text(ESTIMATOR)
    overrides = [
        "method=null",
        f"rpg.external_lib=[{loss},{estimator}]",
        "algorithm.adv_estimator=mine",
        "actor_rollout_ref.actor.policy_loss.loss_mode=mine",
        "actor_rollout_ref.actor.optim.lr_warmup_steps=0",
        "trainer.save_freq=3",
    ]
    steps = short_run.run(run, 3, *overrides, script=SCRIPT)
    assert [step["step"] for step in steps] == [1, 2, 3]
    assert all(0 <= step[METRIC] < 1 and step["actor/grad_norm"] > 0 for step in steps)
    assert all(step["critic/advantages/min"] == step["critic/advantages/max"] == 0.25 for step in steps)

    resumed = short_run.run(run, 4, *overrides, script=SCRIPT)
    assert [step["step"] for step in resumed] == [1, 2, 3, 4]
    assert METRIC in resumed[-1]
