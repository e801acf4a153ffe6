"""Runs with one's own data and reward on the toy model, by the commands of docs/train_your_own.md."""

import json
import re
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rpg.cli import main
from tests.e2e import short_run
from tests.e2e.conftest import ROOT, Run
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


@pytest.mark.e2e
@pytest.mark.full
def test_a_trial_agrees_with_a_run_that_filters_on_acc(tmp_path: Path, capsys: pytest.CaptureFixture):
    """The page's Math-Verify reward, in verl's form and without `acc`, under DAPO."""
    (tmp_path / "reward.py").write_text(blocks("Your reward", "python")[1])
    short_run.run(
        tmp_path / "run",
        3,
        f"rpg.reward={tmp_path / 'reward.py'}",
        "data.train_batch_size=16",
        "data.val_max_samples=64",
        "trainer.test_freq=3",
        script=ROOT / "recipe/rpg/cpu/run_dapo_cpu.sh",
    )
    samples = [json.loads(line) for line in (tmp_path / "run/validation/3.jsonl").read_text().splitlines()]
    assert {sample["acc"] for sample in samples} == {0.0, 1.0}
    assert not (tmp_path / "run/left_out.jsonl").exists()

    rows = [{"data_source": "toy_sum", "reward_model": {"ground_truth": sample["gts"]}} for sample in samples]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "rows.parquet")
    trial = ["score", str(tmp_path / "rows.parquet"), "--reward", str(tmp_path / "reward.py")]
    assert main([*trial, "--responses", str(tmp_path / "run/validation/3.jsonl")]) == 0
    tried = re.findall(r": score (\S+), acc (\S+), answered (\S+), ", capsys.readouterr().out)
    logged = [(sample["score"], sample["acc"], sample["answered"]) for sample in samples]
    assert [tuple(map(float, numbers)) for numbers in tried] == logged

    assert main(["table", str(tmp_path / "run")]) == 0
    assert "toy sums" in capsys.readouterr().out
