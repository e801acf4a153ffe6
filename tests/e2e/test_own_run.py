"""A run with one's own data and reward on the toy model, by the commands of docs/train_your_own.md."""

from pathlib import Path

import pytest

from tests.e2e.conftest import Run
from tests.e2e.short_run import metrics
from tests.test_train_your_own import blocks, prepare

SHORT = [
    "trainer.total_training_steps=2",
    "trainer.val_before_train=false",
    "trainer.test_freq=-1",
    "trainer.save_freq=-1",
    "data.train_batch_size=16",
]


@pytest.mark.e2e
@pytest.mark.full
def test_a_run_with_own_data_and_reward(tmp_path: Path):
    prepare(tmp_path)
    command = blocks("Your reward", "bash")[1].strip().replace("\\\n", " ")
    overrides = " ".join([*SHORT, f"trainer.default_local_dir={tmp_path / 'run'}"])
    run = Run(["bash", "-ec", f"cd {tmp_path} && {command} {overrides}"], tmp_path / "out")
    try:
        assert run.wait() == 0, run.text()[-4000:]
    finally:
        run.end()
    assert [record["step"] for record in metrics(tmp_path / "run")] == [1, 2]
    # the reward is 0 or 1, without the overlong penalty, which is negative
    assert all(record["critic/score/min"] >= 0 for record in metrics(tmp_path / "run"))
