"""A reward function that fails in every way that one can, and a learning rate that is none."""

import json

import pytest

from tests.e2e.conftest import PATIENCE

pytestmark = pytest.mark.e2e

REWARD = """
import time
from rpg.rewards import compute_score as right

def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    rest = int(ground_truth) % 20
    if rest == 0:
        raise KeyError("no such problem")
    if ground_truth == "101":
        time.sleep(3600)
    if rest in (1, 2, 3):
        return {1: {"score": float("nan"), "acc": 0.0, "pred": ""}, 2: "good", 3: None}[rest]
    return right(data_source, solution_str, ground_truth)
"""


def test_a_reward_function_that_fails(start, tmp_path):
    """The run goes on without those responses, counts them and says which they are; validation takes them as wrong."""
    (tmp_path / "reward.py").write_text(REWARD)
    run = start(
        "trainer.total_training_steps=2",
        "trainer.val_before_train=false",
        "trainer.test_freq=2",
        "trainer.save_freq=-1",
        f"reward.custom_reward_function.path={tmp_path / 'reward.py'}",
        "~reward.custom_reward_function.reward_kwargs.judge",
        "rpg.reward_limit=5",
        "rpg.left_out_limit=0.9",
    )
    assert run.wait(PATIENCE) == 0, run.text()[-3000:]
    notes = [json.loads(line) for line in (run.directory / "left_out.jsonl").read_text().splitlines()]
    counted = [record["data"]["training/left_out_responses"] for record in run.metrics()]
    assert sum(counted) > 0
    for step, count in enumerate(counted, start=1):
        of_training = [note for note in notes if note["step"] == step]
        # validation comes after the second step, and is noted under it
        assert len(of_training) == count if step == 1 else len(of_training) > count
    reasons = " ".join({note["why"] for note in notes})
    for said in ("KeyError: 'no such problem'", "score=nan", "TypeError"):
        assert said in reasons
    assert all("What is" in note["problem"] for note in notes)
    data = run.metrics()[-1]["data"]
    assert data["val-core/toy_sum/acc/mean@1"] < data["val-aux/toy_sum/acc_success_only/mean@1"]
    assert data["actor/skipped_steps"] == 0
    assert run.processes() == []


@pytest.mark.full
def test_weights_that_are_no_numbers(start):
    """A learning rate of 1e37: exit code 1, and the checkpoint of step 1 is the last one."""
    settings = ["trainer.val_before_train=false", "trainer.test_freq=-1", "trainer.save_freq=1"]
    run = start(*settings, "trainer.total_training_steps=9", "actor_rollout_ref.actor.optim.lr=1e37")
    assert run.wait(PATIENCE) == 1, run.text()[-3000:]
    assert "not finite" in run.text()
    saved = sorted(path.name for path in run.directory.glob("global_step_*"))
    assert len(saved) == len(run.metrics()) < 9
    assert run.processes() == []
