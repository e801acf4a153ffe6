"""`rpg list`, `rpg train`: runs by name or path, overrides, and the resulting configuration."""

import os
from unittest.mock import patch

import pytest
import yaml

from rpg.checks import doctor_command as doctor
from rpg.cli import main
from rpg.config.compose import compose
from rpg.registry import scripts

OWN = 'exec bash "/any/launch.sh" "$0" method=dapo \\\n    trainer.project_name=mine "$@"\n'
ONE_GPU = ["method=rpg_rf_clip_ppo", "model=qwen3-0.6b", "dataset=gsm8k", "profile=one_gpu"]
FILES = {"MODEL_PATH": "/m", "TRAIN_FILE": "a.parquet", "TEST_FILE": "[b.parquet,c.parquet]"}


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ("--size 4b --method rpg_rf_clip_ppo", "rpg_4b_urkl1e-4_rf_clip_ppo_0.2_0.28_2k"),
        ("--method RPG-URKL --size 4b", "rpg_4b_urkl1e-4_4k"),
        ("", "dapo_7b"),
    ],
)
def test_scripts_by_size_and_method(capsys, options, name):
    assert main(["list", *options.split()]) == 0
    listed = [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()]
    assert name in listed
    assert (len(listed) == len(scripts.paths())) == (not options)


def test_a_script_of_the_recipe():
    found = {scripts.find(name) for name in ("grpo_cpu", "run_grpo_cpu", "run_grpo_cpu.sh", "cpu/run_grpo_cpu.sh")}
    assert [(script.name, script.overrides[:2]) for script in found] == [("grpo_cpu", ("profile=cpu", "model=toy"))]


def test_an_unknown_name_has_the_nearest_and_a_users_own_script_is_started_with_bash(tmp_path, capsys):
    (tmp_path / "run_mine.sh").write_text("#!/bin/bash\n")
    for name, said in (("dapo_7x", "dapo_7b?"), (str(tmp_path / "run_mine.sh"), "start your own script with bash")):
        for command in ("train", "plan"):
            assert main([command, name]) == 2
            assert said in capsys.readouterr().err


def test_flags_of_train_are_overrides_that_win_over_variables(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("DRY_RUN", "1")
    for variable, value in FILES.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.chdir(tmp_path)
    flags = ["--model", "/n", "--train", "a.parquet", "--test", "b.parquet", "c.parquet"]
    assert main(["train", *ONE_GPU, *flags, "data.train_batch_size=64"]) == 0  # an override behind files
    printed = yaml.safe_load(capsys.readouterr().out)
    assert printed["actor_rollout_ref"]["model"]["path"] == "/n"
    assert printed["data"]["train_files"] == [str(tmp_path / "a.parquet")]
    assert printed["data"]["val_files"] == [str(tmp_path / name) for name in ("b.parquet", "c.parquet")]
    assert printed["data"]["train_batch_size"] == 64
    (tmp_path / "own.py").write_text("def compute_score(data_source, solution_str, ground_truth, extra_info): ...")
    assert main(["train", *ONE_GPU, "--reward", "own.py"]) == 0
    captured = capsys.readouterr()
    printed = yaml.safe_load(captured.out)
    assert captured.err.count(" acts, not that of") == len(FILES)  # the variables act beside model= and dataset=
    own = {"file": str(tmp_path / "own.py")}
    assert printed["reward"]["custom_reward_function"]["reward_kwargs"] == own


@pytest.mark.parametrize(("memory", "share"), [("47.9", 0.5), ("48", 0.4), ("80", 0.6)])
def test_one_gpu_takes_the_settings_of_its_memory(monkeypatch, memory, share):
    monkeypatch.setenv("GPU_MEMORY_GB", memory)
    run, _ = compose(None, ONE_GPU)
    assert run["actor_rollout_ref.rollout.gpu_memory_utilization"] == share


@patch.dict(os.environ)  # doctor exports the environment of the run's processes
def test_doctor_and_plan_take_the_flags_of_train(monkeypatch, capsys, tmp_path):
    files = {"--model": "m", "--train": "t", "--test": "e", "--reward": "r.py"}
    flags = [text for flag, name in files.items() for text in (flag, str(tmp_path / name))]
    assert main(["plan", "grpo_7b", "--test", "a${b"]) == 2  # the plan's numbers do not depend on that file
    assert "a${b" in capsys.readouterr().err
    assert main(["plan", "grpo_7b", *flags]) == 2
    assert f"{tmp_path / 'm'}: has no config.json" in capsys.readouterr().err
    monkeypatch.setattr(doctor, "plugin", lambda probe: [])
    assert main(["doctor", "grpo_cpu", *flags]) == 1
    said = capsys.readouterr().out
    assert all(f"{tmp_path / name}: no such file" in said for name in ("t", "e", "r.py"))
