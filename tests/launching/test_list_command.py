"""`rpg list` finds scripts; `rpg train` takes model, files and reward by flags, which mean what the variables mean."""

import pytest
import yaml

from rpg.cli import main
from rpg.launching import scripts
from rpg.launching.compose import of_script

FILES = {"MODEL_PATH": "/m", "TRAIN_FILE": "a.parquet", "TEST_FILE": "[b.parquet,c.parquet]"}


@pytest.mark.parametrize(
    ("options", "name"),
    [
        ("--size 1gpu --method rpg_rf_clip_ppo --task gsm8k", "rpg_qwen3-0.6b_urkl1e-4_rf_clip_ppo_0.2_0.28"),
        ("--method RPG-URKL --size 4b", "rpg_4b_urkl1e-4_4k"),
        ("--task sums", "rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28_smollm2"),
    ],
)
def test_scripts_by_size_method_and_task(capsys, options, name):
    assert main(["list", *options.split()]) == 0
    listed = [line.split("\t")[0] for line in capsys.readouterr().out.splitlines()]
    assert name in listed
    assert len(listed) < len(scripts.paths())


def test_all_scripts_and_none(capsys):
    assert main(["list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == len(scripts.paths())
    assert main(["list", "--method", "grop"]) == 2
    assert "--method grpo" in capsys.readouterr().err


def test_flags_of_train_are_the_variables(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("DRY_RUN", "1")
    for variable, value in FILES.items():
        monkeypatch.setenv(variable, value)
    wanted = of_script(scripts.find("grpo_qwen3-0.6b"), ["data.train_batch_size=64"]).config
    for variable in FILES:
        monkeypatch.setenv(variable, "another")
    flags = ["--model", "/m", "--train", "a.parquet", "--test", "[b.parquet,c.parquet]"]
    assert main(["train", "grpo_qwen3-0.6b", *flags, "data.train_batch_size=64"]) == 0
    assert yaml.safe_load(capsys.readouterr().out) == wanted
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own.py").write_text("def compute_score(data_source, solution_str, ground_truth, extra_info): ...")
    assert main(["train", "grpo_qwen3-0.6b", "--reward", "own.py"]) == 0
    printed = yaml.safe_load(capsys.readouterr().out)
    assert printed["reward"]["custom_reward_function"]["path"] == str(tmp_path / "own.py")


@pytest.mark.parametrize(("memory", "share"), [("24", 0.5), ("47.9", 0.5), ("48", 0.4), ("80", 0.6), ("141", 0.6)])
def test_one_gpu_takes_the_settings_of_its_memory(monkeypatch, memory, share):
    monkeypatch.setenv("GPU_MEMORY_GB", memory)
    rollout = of_script(scripts.find("grpo_qwen3-0.6b"), []).config["actor_rollout_ref"]["rollout"]
    assert rollout["gpu_memory_utilization"] == share
