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
    """A line that is half written waits, a NaN is not shown, a pipe's line is whole; W&B's config.yaml is no run's."""
    write_steps(run := tmp_path / "r", 1, 2, 3)
    lock = take(run / RUN)
    (run / "wandb/run/files").mkdir(parents=True)
    (run / "wandb/run/files/config.yaml").touch()
    assert main(["watch", str(tmp_path)]) == 0
    assert capsys.readouterr().out == f"{run}  3/6, 3 min left  reward 0.300  toy 0.250  60 s a step\n"
    log = run / "metrics.jsonl"
    log.write_text(log.read_text().replace('"critic/score/mean": 0.2', '"critic/score/mean": null')[:-5])
    assert state(run) == ([str(run), "2/6, 4 min left", "toy 0.250", "60 s a step"], False)
    lock.release()
    assert state(run) == ([str(run), "2/6, interrupted", "toy 0.250", "60 s a step"], True)
    (run / RUN).unlink()  # as in a run of plain verl
    assert state(run) == ([str(run), "2/6", "toy 0.250", "60 s a step"], False)


def test_a_run_of_epochs_goes_on_while_a_process_holds_it(tmp_path: Path):
    made = config("r")
    made["trainer"]["total_training_steps"] = None
    lock = take(write_run(tmp_path, [(1, {"x": 1.0})], made) / RUN)
    assert state(tmp_path) == ([str(tmp_path), "step 1"], False)
    lock.release()
