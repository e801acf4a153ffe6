"""Every refusal before Ray starts: which key, which value, what to do; as a user meets them, by exit code and text."""

import json
import os
import socket
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from omegaconf import OmegaConf

from recipe.rpg import main_rpg
from recipe.rpg.compose import compose_config
from rpg import rewards
from rpg.checks import preflight
from rpg.data.schema import repeated_rows, write_parquet
from rpg.data.toy import toy_problems

CPU = ["profile=cpu", "model=toy", "dataset=toy", "optim=toy", "trainer.experiment_name=t"]


@pytest.fixture
def toy(tmp_path: Path) -> Path:
    """A directory with toy data and something that looks like a model directory."""
    write_parquet(repeated_rows(toy_problems("train", seed=0, count=64)), tmp_path / "train.parquet")
    write_parquet(repeated_rows(toy_problems("test", seed=0, count=8)), tmp_path / "test.parquet")
    model = tmp_path / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps({"model_type": "qwen2"}))
    (model / "tokenizer.json").write_text("{}")
    (model / "model.safetensors").write_bytes(b"")
    return tmp_path


def overrides(toy: Path) -> list[str]:
    return [
        *CPU,
        f"data.train_files={toy / 'train.parquet'}",
        f"data.val_files={toy / 'test.parquet'}",
        f"actor_rollout_ref.model.path={toy / 'model'}",
        f"trainer.default_local_dir={toy / 'run'}",
    ]


def check(toy: Path, *more: str) -> None:
    config = main_rpg.resolve(compose_config([*overrides(toy), *more]))
    preflight.check_inputs(config)
    preflight.check_loss(config)


def refusal(toy: Path, *more: str) -> str:
    with pytest.raises(preflight.Refused) as caught:
        check(toy, *more)
    return str(caught.value)


def test_a_sound_configuration_passes(toy, monkeypatch):
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    check(toy)


def test_missing_file(toy):
    text = refusal(toy, "data.train_files=/nowhere/train.parquet")
    assert "data.train_files=/nowhere/train.parquet: no such file" in text
    assert "TRAIN_FILE" in text


def test_a_file_that_is_no_parquet(toy):
    (toy / "bad.parquet").write_text("not a parquet file")
    assert "data.val_files=" in refusal(toy, f"data.val_files={toy / 'bad.parquet'}")


def test_a_file_without_the_column(toy):
    pq.write_table(pa.table({"question": ["1 + 1"]}), toy / "other.parquet")
    assert "data_source" in refusal(toy, f"data.train_files={toy / 'other.parquet'}")


def test_a_data_source_that_nothing_scores(toy):
    pq.write_table(pa.table({"data_source": ["riddles"]}), toy / "riddles.parquet")
    text = refusal(toy, f"data.val_files={toy / 'riddles.parquet'}")
    assert "riddles" in text
    assert "reward.custom_reward_function" in text


KWARGS = "reward.custom_reward_function.reward_kwargs"


@pytest.mark.parametrize(
    ("override", "said"),
    [
        (f"{KWARGS}.judge=strict", f"{KWARGS}.judge=strict is not known; choices: release, verified"),
        (f"{KWARGS}.judge=null", f"{KWARGS}.judge=None is not known; choices: release, verified"),
        (f"+{KWARGS}.boxed_fallback=true", f"{KWARGS}.boxed_fallback=True is for judge=verified"),
        (f"+{KWARGS}.time_limit=0", f"{KWARGS}.time_limit=0 is no limit; give seconds"),
        (f"+{KWARGS}.jugde=release", f"{KWARGS}.jugde=release: rpg.rewards takes judge"),
        ("reward.custom_reward_function.path=mine.py", f"add '~{KWARGS}.judge'"),
    ],
)
def test_a_judge_that_there_is_not(toy, override, said):
    assert said in refusal(toy, override)


def test_an_unknown_judge_ends_the_command_with_exit_code_2(toy, capsys):
    assert main_rpg.main([*overrides(toy), f"{KWARGS}.judge=strict"]) == 2
    assert f"error: {KWARGS}.judge=strict is not known; choices: release, verified" in capsys.readouterr().err
    assert not (toy / "run").exists()
    assert main_rpg.main([*overrides(toy), "judge=strict"]) == 2
    assert "Available options in 'judge':\n\trelease\n\tverified" in capsys.readouterr().err


def test_judges_that_there_are(toy, monkeypatch):
    monkeypatch.setenv("VERL_PLATFORM", "cpu")
    check(toy, f"+{KWARGS}.time_limit=1.5")
    check(toy, "judge=verified", f"+{KWARGS}.boxed_fallback=false")
    check(toy, f"reward.custom_reward_function.path={Path(rewards.__file__)}")
    check(toy, "reward.custom_reward_function.path=mine.py", f"~{KWARGS}.judge")


def test_fewer_rows_than_a_batch(toy):
    text = refusal(toy, "data.train_batch_size=65")
    assert "data.train_batch_size=65" in text
    assert "64 rows" in text


def test_missing_model(toy):
    text = refusal(toy, "actor_rollout_ref.model.path=/nowhere/model")
    assert "actor_rollout_ref.model.path=/nowhere/model: no such directory" in text
    assert "MODEL_PATH" in text


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("config.json", "{", "config.json cannot be read"),
        ("config.json", "{}", "no model_type"),
        ("tokenizer.json", None, "no tokenizer files"),
        ("model.safetensors", None, "no weights"),
    ],
)
def test_unreadable_model_directory(toy, name, content, said):
    path = toy / "model" / name
    path.unlink() if content is None else path.write_text(content)
    text = refusal(toy)
    assert said in text
    assert "actor_rollout_ref.model.path=" in text


def test_busy_port(toy):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        text = refusal(toy, f"+ray_kwargs.ray_init.dashboard_port={port}")
    assert f"ray_kwargs.ray_init.dashboard_port={port}" in text
    assert "free port" in text


def test_more_gpus_than_there_are(toy):
    text = refusal(toy, "ray_kwargs.ray_init.num_gpus=null", "trainer.n_gpus_per_node=8")
    assert "trainer.n_gpus_per_node=8" in text
    assert "profile=cpu" in text


def test_rollout_parallelism_that_does_not_divide(toy):
    text = refusal(toy, "actor_rollout_ref.rollout.tensor_model_parallel_size=3")
    assert "tensor_model_parallel_size=3" in text


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("actor_rollout_ref.actor.policy_loss.loss_mode=rpg_rf_urkl_clip_pp", "rpg_rf_urkl_clip_ppo"),
        ("actor_rollout_ref.actor.clip_ratio_c=1.0", "clip_ratio_c"),
        ("actor_rollout_ref.actor.use_kl_loss=true", "use_kl_loss"),
        ("actor_rollout_ref.actor.policy_loss.loss_mode=something", "something"),
        ("algorithm.adv_estimator=rpgg", "algorithm.adv_estimator=rpgg"),
    ],
)
def test_loss_and_estimator(toy, override, key):
    assert key in refusal(toy, override)


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("actor_rollout_ref.actor.policy_loss.loss_mod=x", "loss_mod"),
        ("method=none_such", "none_such"),
        ("trainer.default_local_dir=${oc.env:NO_SUCH_VARIABLE}", "NO_SUCH_VARIABLE"),
    ],
)
def test_configuration_errors_have_exit_code_2(toy, override, said, capsys):
    assert main_rpg.main([*overrides(toy), override]) == 2
    assert said in capsys.readouterr().err


def test_as_a_process(toy):
    """The launch script itself: exit code 2, one line, no directory made, no process left."""
    script = Path(main_rpg.__file__).parent / "cpu/run_rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28.sh"
    environment = {**os.environ, "PYTHON": sys.executable, "MODEL_PATH": "/nowhere/model"}
    ended = subprocess.run(
        ["bash", str(script), *overrides(toy)[5:7], f"trainer.default_local_dir={toy / 'run'}"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 2
    errors = [line for line in ended.stderr.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "/nowhere/model" in errors[0]
    assert not (toy / "run").exists()


def test_dry_run_needs_nothing(capsys, monkeypatch):
    monkeypatch.setenv("DRY_RUN", "1")
    assert main_rpg.main(["trainer.experiment_name=t"]) == 0
    printed = OmegaConf.create(capsys.readouterr().out)
    assert printed.actor_rollout_ref.actor.policy_loss.loss_mode == "rpg_rf_urkl_clip_ppo"
