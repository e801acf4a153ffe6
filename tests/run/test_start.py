"""Rejected runs: exit code 2, one line per error, no side effects."""

import pytest

from rpg.run import start
from tests.builders.toy_run import overrides


def errors(text: str) -> list[str]:
    return [line.removeprefix("error: ") for line in text.splitlines() if line.startswith("error: ")]


def test_everything_that_is_wrong_is_shown(toy, capsys):
    """All wrong types first, as the other checks rely on them, then settings, then files."""
    types = ["actor_rollout_ref.rollout.n=abc", "rpg.time_limit=2h"]
    settings = ["actor_rollout_ref.actor.clip_ratio=0.3"]
    files = ["data.val_files=/nowhere/test.parquet", "actor_rollout_ref.model.path=/nowhere/model"]
    for given, wrong in (([*types, *settings, *files], types), ([*settings, *files], settings), (files, files)):
        assert start.start(None, [*overrides(toy), *given]) == 2
        keys = [line.partition("=")[0] for line in errors(capsys.readouterr().err)]
        assert sorted(keys) == sorted(item.partition("=")[0] for item in wrong)
        assert not (toy / "run").exists()


def test_a_refusal_by_verl_leaves_nothing_behind(toy, capsys):
    """Also the import server, which has started with its log in the run's directory."""
    loss = "actor_rollout_ref.actor.policy_loss.loss_mode=gsp"
    preload = ["rpg.preload.early=[]", "rpg.preload.late=[rpg.verl_plugin.cpu.preload.ray_ids]"]
    assert start.start(None, [*overrides(toy), "method=null", "algorithm.adv_estimator=rpg", loss, *preload]) == 2
    assert any(line.startswith(f"{loss}: is not registered with verl") for line in errors(capsys.readouterr().err))
    assert not (toy / "run").exists()


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [  # CKPTS_DIR= would put a run into the root of the file system
        *((name, "", f"{name} is set but empty; give it a value, or unset it") for name in ("CKPTS_DIR", "MODEL_PATH")),
        *(("NNODES", value, value) for value in ("abc", "0")),
        ("GPU_MEMORY_GB", "24 GB", "24 GB"),
    ],
)
def test_a_variable_that_is_empty_or_no_number(name, value, said, monkeypatch, capsys):
    monkeypatch.setenv("DRY_RUN", "1")
    monkeypatch.setenv(name, value)
    assert start.start(None, ["trainer.experiment_name=t", "profile=one_gpu"]) == 2
    (line,) = errors(capsys.readouterr().err)
    assert said in line


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("trainer.default_local_dir=${oc.env:NO_SUCH_VARIABLE}", "NO_SUCH_VARIABLE"),
        ("reward.custom_reward_function=null", "reward.custom_reward_function"),
    ],
)
def test_configuration_errors_have_exit_code_2(toy, override, said, capsys):
    assert start.start(None, [*overrides(toy), override]) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(
    ("override", "proposed"),
    [
        ("algorithm.filter_groups.metric=accuracy", "acc"),
        ("actor_rollout_ref.actor.policy_loss.loss_mode=rpg_rf_urlk_clip_ppo", "rpg_rf_urkl_clip_ppo"),
    ],
)
def test_a_dry_run_refuses_wrong_settings(override, proposed, capsys, monkeypatch):
    """Suggests the nearest name; does not check the missing files and model."""
    monkeypatch.setenv("DRY_RUN", "1")
    assert start.start(None, ["trainer.experiment_name=t", "method=null", "algorithm.adv_estimator=rpg", override]) == 2
    refused = capsys.readouterr()
    assert refused.out == ""
    (line,) = errors(refused.err)
    assert line.startswith(f"{override.lstrip('+')}: ")
    assert proposed in line
