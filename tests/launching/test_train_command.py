"""`rpg train`: a script by its name or path, read from its text, and the run that is frozen of it."""

import pytest

from rpg.cli import main
from rpg.launching import scripts
from rpg.launching.compose import of_script
from rpg.launching.settle import settle

OWN = 'exec bash "/any/launch.sh" "$0" method=dapo \\\n    trainer.project_name=mine "$@"\n'


@pytest.mark.parametrize("name", ["grpo_cpu", "run_grpo_cpu", "run_grpo_cpu.sh", "cpu/run_grpo_cpu.sh"])
def test_a_script_of_the_recipe(name):
    script = scripts.find(name)
    assert script.name == "grpo_cpu"
    assert script.overrides[:2] == ("profile=cpu", "model=toy")


def test_a_script_of_the_users(tmp_path):
    (tmp_path / "run_mine.sh").write_text(f"#!/bin/bash\nset -euo pipefail\n{OWN}")
    script = scripts.find(tmp_path / "run_mine.sh")
    assert (script.name, script.overrides) == ("mine", ("method=dapo", "trainer.project_name=mine"))


@pytest.mark.parametrize("text", ["export MODEL_PATH=/m\n" + OWN, OWN.replace("mine", "$USER")])
def test_shell_code_that_only_bash_reads_is_refused(tmp_path, capsys, text):
    """A configuration that is not the one that bash would start must not be judged in its place."""
    (tmp_path / "run_x.sh").write_text(text)
    with pytest.raises(scripts.NotRead, match="DRY_RUN=1 bash"):
        scripts.find(tmp_path / "run_x.sh")
    for command in ("train", "plan"):
        assert main([command, str(tmp_path / "run_x.sh")]) == 2


def test_an_unknown_name_has_the_nearest(capsys):
    assert main(["train", "dapo_7x"]) == 2
    assert "did you mean dapo_7b?" in capsys.readouterr().err
    assert main(["train", "dapo_7b", "trainer.no_such_key=1"]) == 2
    assert "no_such_key" in capsys.readouterr().err


def test_freezing_changes_neither_what_was_asked_nor_twice(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    asked = of_script(scripts.find("grpo_cpu"), [])
    before = asked.copy()
    run = settle(asked)
    assert asked.config == before
    assert run.get("trainer.default_local_dir") == str(tmp_path / "checkpoints/grpo_cpu")
    assert settle(run).config == run.config
    assert list(tmp_path.iterdir()) == []
