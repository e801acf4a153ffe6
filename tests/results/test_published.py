"""What docs/results/study shows is what the logs beside it say."""

import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from rpg import cli
from rpg.results.config import setting
from rpg.results.runs import load_runs

ROOT = Path(__file__).resolve().parents[2]
STUDY = ROOT / "docs/results/study"
FOLDERS = sorted(STUDY.glob("steps_*"))


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_the_table_is_made_again(folder, capsys):
    assert cli.main(["table", str(folder), "--paper", "8"]) == 0
    assert capsys.readouterr().out == (folder / "table.md").read_text()


@pytest.mark.slow
def test_the_report_is_made_again(tmp_path):
    subprocess.run([sys.executable, "docs/results/study_report.py", STUDY, tmp_path], cwd=ROOT, check=True)
    assert (tmp_path / "methods.md").read_text() == (STUDY / "methods.md").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_runs_are_whole_and_differ_by_method_and_seed_alone(folder):
    runs = load_runs([folder], [])
    assert not [run.name for run in runs if run.stopped_early]
    found = {(run.method, setting(run.config, "data.seed")) for run in runs}
    assert len(found) == len(runs)
    for key in ("data.train_batch_size", "actor_rollout_ref.rollout.n", "actor_rollout_ref.actor.optim.lr",
                "actor_rollout_ref.actor.ppo_mini_batch_size", "actor_rollout_ref.model.path"):  # fmt: skip
        assert len({setting(run.config, key) for run in runs}) == 1, key


@pytest.mark.slow
@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_no_directory_of_a_machine_is_named(folder):
    for path in folder.glob("*/config.yaml"):
        config = yaml.safe_load(path.read_text())
        assert not Path(config["trainer"]["default_local_dir"]).is_absolute()
