"""`rpg watch`: progress while a run writes, time left, the end, and saved answers."""

import json
import os
from pathlib import Path

import pytest

from rpg.cli import main
from rpg.files.lock import RUN, take
from rpg.results.watch_command import state
from tests.builders.runs import config, write_run


def write_config(directory: Path, steps: int) -> None:
    write_run(directory, [], config(directory.name, steps=steps))
    (directory / "metrics.jsonl").unlink()


def log(directory: Path, step: int) -> None:
    values = {"critic/score/mean": step / 10, "timing_s/step": 60.0, "val-core/toy/acc/mean@1": 0.25}
    with open(directory / "metrics.jsonl", "a") as stream:
        stream.write(json.dumps({"step": step, "data": values}) + "\n")


def test_progress_time_left_and_values(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch):
    """A line that is half written waits; at 80 columns no word is broken."""
    write_config(tmp_path / "r", steps=6)
    for step in (1, 2, 3):
        log(tmp_path / "r", step)
    assert main(["watch", "--once", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == "r  3/6, 3 min left  reward 0.300  toy 0.250  60 s a step"
    with open(tmp_path / "r" / "metrics.jsonl", "r+b") as stream:
        stream.truncate(stream.seek(0, 2) - 5)
    assert state(tmp_path / "r")[0].startswith("r  2/6, 4 min left")


def test_a_run_that_no_process_holds_is_interrupted(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_config(tmp_path / "r", steps=6)
    log(tmp_path / "r", 2)
    lock = take(tmp_path / "r" / RUN)
    for shown in ("2/6, 4 min left", "2/6, interrupted"):
        assert main(["watch", "--once", str(tmp_path)]) == 0
        assert f"r  {shown}  reward" in capsys.readouterr().out
        lock.release()


@pytest.fixture
def answered(tmp_path):
    """Return a run with two validations of four answers to two problems, and with newer responses of a step."""
    for place, when in (("validation/0", 1), ("validation/10", 2), ("rollouts/11", 3)):
        file = tmp_path / f"{place}.jsonl"
        file.parent.mkdir(exist_ok=True)
        lines = [
            json.dumps({"input": f"What is\n{number // 2} + 2?", "gts": "3", "score": 1.0,
                        "output": f"{place}, answer {number}\nLine two " + "x " * 100})
            for number in range(4)
        ]  # fmt: skip
        file.write_text("\n".join(lines) + "\n")
        os.utime(file, (when, when))
    return tmp_path


@pytest.mark.parametrize(("config", "named"), [("{}", "validation/10"), ('{"rollout_data_dir": "%s"}', "rollouts/11")])
def test_the_newest_answers_to_different_problems_keep_their_lines(answered, config, named, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    trainer = config.replace("%s", str(answered / "rollouts"))
    (answered / "config.yaml").write_text(f'{{"trainer": {trainer}}}')
    assert main(["watch", str(answered), "--answers", "2"]) == 0
    head, *lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]
    assert head == f"{answered / named}.jsonl: 4 answers to 2 problems"
    problems = [number for number, line in enumerate(lines) if line == "problem"]
    assert [lines[number + 1] for number in problems] == ["  What is"] * 2
    assert sorted(lines[number + 2] for number in problems) == ["  0 + 2?", "  1 + 2?"]
    assert sum(line.startswith("  Line two x x") for line in lines) == 2
    assert max(map(len, lines)) <= 80
