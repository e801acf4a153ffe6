"""`rpg train`: its flags, and the configuration that they make."""

import yaml

from rpg.cli import main

ONE_GPU = ["method=rpg_rf_clip_ppo", "model=qwen3-0.6b", "dataset=gsm8k", "profile=one_gpu"]
FILES = {"MODEL_PATH": "/m", "TRAIN_FILE": "a.parquet", "TEST_FILE": "[b.parquet,c.parquet]"}


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
    assert captured.err.count(" replaces the value of") == len(FILES)  # the variables act beside model= and dataset=
    own = {"file": str(tmp_path / "own.py")}
    assert printed["reward"]["custom_reward_function"]["reward_kwargs"] == own
