"""Runs with the user's own code on the toy model: a reward in verl's form; a loss and an estimator."""

import json
from pathlib import Path

import pytest

from rpg.cli import main
from tests.e2e import short_run
from tests.e2e.conftest import ROOT
from tests.test_train_your_own import blocks

pytestmark = [pytest.mark.e2e, pytest.mark.full]

SCRIPT = ROOT / "recipe/rpg/cpu/run_dapo_cpu.sh"
REWARD = """
from math_verify import parse, verify

def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    answer = parse(solution_str)
    return {"score": float(verify(parse(ground_truth), answer)), "answered": len(answer) > 0}
"""


def test_scoring_again_agrees_with_a_run_that_filters_on_acc(tmp_path: Path, capsys: pytest.CaptureFixture):
    """Math-Verify as a reward without `acc`, under DAPO."""
    (tmp_path / "reward.py").write_text(REWARD)
    short_run.run(
        tmp_path / "run",
        3,
        f"rpg.reward={tmp_path / 'reward.py'}",
        "data.train_batch_size=16",
        "data.val_max_samples=64",
        "trainer.test_freq=3",
        script=SCRIPT,
    )
    samples = [json.loads(line) for line in (tmp_path / "run/validation/3.jsonl").read_text().splitlines()]
    assert {sample["acc"] for sample in samples} == {0.0, 1.0}
    assert {json.loads(sample["extra_info"])["split"] for sample in samples} == {"test"}
    assert not (tmp_path / "run/left_out.jsonl").exists()

    assert main(["score", str(tmp_path / "run")]) == 0
    again = (tmp_path / "run/judge-reward.py/validation/3.jsonl").read_text().splitlines()
    numbers = [
        [(one["score"], one["acc"], one["answered"]) for one in own] for own in (map(json.loads, again), samples)
    ]
    assert numbers[0] == numbers[1]

    assert main(["table", str(tmp_path / "run")]) == 0
    assert "toy sums" in capsys.readouterr().out


METRIC = "actor/mine_at_the_bound"
ESTIMATOR = """
from verl.trainer.ppo.core_algos import register_adv_est

@register_adv_est("mine")
def quarter(token_level_rewards, response_mask, **_):
    advantages = 0.25 * response_mask
    return advantages, advantages
"""


def test_an_own_loss_and_estimator_trained_and_resumed(tmp_path: Path):
    """The loss of docs/train_your_own.md."""
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
