"""`rpg watch`: progress while a run writes, time left, the end, and saved answers."""

from pathlib import Path

import pytest

from rpg.cli import main
from rpg.files.lock import RUN, take
from rpg.results.watch_command import state
from tests.builders.runs import config, write_run


def write_steps(directory: Path, *steps: int) -> None:
    values = {"timing_s/step": 60.0, "val-core/toy/acc/mean@1": 0.25}
    lines = [(step, {"critic/score/mean": step / 10, **values}) for step in steps]
    write_run(directory, lines, config(directory.name, steps=6))


def test_progress_time_left_and_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """A line that is half written waits, and a NaN is not shown; W&B's config.yaml is no run's."""
    write_steps(tmp_path / "r", 1, 2, 3)
    (tmp_path / "r/wandb/run/files").mkdir(parents=True)
    (tmp_path / "r/wandb/run/files/config.yaml").touch()
    assert main(["watch", "--once", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == "r  3/6, 3 min left  reward 0.300  toy 0.250  60 s a step"
    log = tmp_path / "r/metrics.jsonl"
    log.write_text(log.read_text().replace('"critic/score/mean": 0.2', '"critic/score/mean": null')[:-5])
    assert state(tmp_path / "r")[0] == ["r", "2/6, 4 min left", "toy 0.250", "60 s a step"]


def test_a_run_that_no_process_holds_is_interrupted(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_steps(tmp_path / "r", 2)
    lock = take(tmp_path / "r" / RUN)
    for shown in ("2/6, 4 min left", "2/6, interrupted"):
        assert main(["watch", "--once", str(tmp_path)]) == 0
        assert f"r  {shown}  reward" in capsys.readouterr().out
        lock.release()


def test_a_run_of_epochs_goes_on_while_a_process_holds_it(tmp_path: Path):
    made = config("r")
    made["trainer"]["total_training_steps"] = None
    lock = take(write_run(tmp_path / "r", [(1, {"x": 1.0})], made) / RUN)
    assert state(tmp_path / "r") == (["r", "step 1"], False)
    lock.release()
