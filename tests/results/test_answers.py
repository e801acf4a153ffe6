"""`rpg watch RUN --answers N`: the newest answers that a run saved."""

import json
import os

import pytest

from rpg.cli import main


@pytest.fixture
def run(tmp_path):
    """Return a run with two validations of three answers, and with one step's responses, which are the newest."""
    for place, when in (("validation/0", 1), ("validation/10", 2), ("rollouts/11", 3)):
        file = tmp_path / f"{place}.jsonl"
        file.parent.mkdir(exist_ok=True)
        sample = {"input": "What is\n1 + 2?", "gts": "3", "score": 1.0}
        lines = [json.dumps({**sample, "output": f"{place}, answer {number} " + "x " * 400}) for number in range(3)]
        file.write_text("\n".join(lines) + "\n")
        os.utime(file, (when, when))
    return tmp_path


@pytest.mark.parametrize(("config", "named"), [("{}", "validation/10"), ('{"rollout_data_dir": "%s"}', "rollouts/11")])
def test_the_newest_answers_fit_the_terminal(run, config, named, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    trainer = config.replace("%s", str(run / "rollouts"))
    (run / "config.yaml").write_text(f'{{"trainer": {trainer}}}')
    assert main(["watch", str(run), "--answers", "2"]) == 0
    head, *lines = capsys.readouterr().out.splitlines()
    assert head == f"{run / named}.jsonl: 3 answers"
    assert sum(line.startswith("problem  What is 1 + 2?") for line in lines) == 2
    assert max(map(len, lines)) <= 80
    assert sum(line.startswith("score    1.0") for line in lines) == 2


def test_answers_of_the_runs_in_a_folder(run, capsys, monkeypatch):
    """Without an argument the folder is ./checkpoints; a run without answers does not hide those of others."""
    monkeypatch.chdir(run)
    for name in ("a", "b"):
        (run / "checkpoints" / name).mkdir(parents=True)
        (run / "checkpoints" / name / "config.yaml").write_text("{}")
    (run / "validation").rename(run / "checkpoints/b/validation")
    assert main(["watch", "--answers", "1"]) == 1
    printed = capsys.readouterr()
    assert printed.out.startswith("checkpoints/b/validation/10.jsonl: 3 answers")
    assert "checkpoints/a: no saved answers yet" in printed.err


def test_no_answers_yet(tmp_path, capsys):
    assert main(["watch", str(tmp_path), "--answers", "2"]) == 2
    assert "trainer.rollout_data_dir=DIR" in capsys.readouterr().err
