"""A run with a reward in verl's form on the toy model."""

import json
from pathlib import Path

import pytest

from rpg.cli import main
from tests.e2e import short_run
from tests.e2e.conftest import ROOT

REWARD = """
from math_verify import parse, verify

def compute_score(data_source, solution_str, ground_truth, extra_info=None):
    answer = parse(solution_str)
    return {"score": float(verify(parse(ground_truth), answer)), "answered": len(answer) > 0}
"""


@pytest.mark.e2e
@pytest.mark.full
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
        script=ROOT / "recipe/rpg/cpu/run_dapo_cpu.sh",
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
