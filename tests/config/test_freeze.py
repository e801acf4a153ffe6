"""Freezing a configuration: paths, Ray's and W&B's settings, and the environment that a run exports."""

import copy
import os

import pytest

from rpg.config.compose import of_script
from rpg.config.freeze import export, freeze, wandb_environment
from rpg.config.verl_keys import RAY
from rpg.registry import scripts
from tests.builders.toy_run import run_config, run_of

pytestmark = pytest.mark.usefixtures("bare_environment")


def test_paths_are_as_verl_can_open_them(toy):
    """verl asserts that a model's path does not end in /, and datasets does not know ~."""
    files = ["data.train_files=['~/train.parquet',/a.parquet]", "data.val_files='~/test.parquet'"]
    run = freeze(run_of(toy, f"actor_rollout_ref.model.path={toy}/model/", "trainer.default_local_dir='~/ck'", *files))
    assert run["trainer.validation_data_dir"] == str(toy / "ck/validation")
    assert run["actor_rollout_ref.model.path"] == f"{toy}/model"
    assert run.files("train") == [f"{toy}/train.parquet", "/a.parquet"]
    assert run.files("val") == [f"{toy}/test.parquet"]


def test_freezing_changes_neither_its_input_nor_a_frozen_run(tmp_path):
    composed = of_script(scripts.find("grpo_cpu"), [])
    before = copy.deepcopy(composed.config)
    run = freeze(composed)
    assert composed.config == before
    assert run["trainer.default_local_dir"] == str(tmp_path / "checkpoints/grpo_cpu")
    assert freeze(run).config == run.config
    assert list(tmp_path.iterdir()) == []


def test_a_local_ray_is_described_and_a_cluster_is_not():
    trained = freeze(run_config())
    local = trained["ray_kwargs.ray_init"]
    assert (local["num_gpus"], local["address"]) == (1, "local")
    os.environ["RAY_ADDRESS"] = "10.0.0.1:6379"
    # what the job sets is not set again: Ray would refuse it
    os.environ["RAY_JOB_CONFIG_JSON_ENV_VAR"] = '{"runtime_env": {"env_vars": {"HF_HUB_OFFLINE": "1"}}}'
    cluster = freeze(trained)["ray_kwargs.ray_init"]  # of an evaluation of the local run
    assert set(cluster) == {"runtime_env"}  # ray.init refuses num_cpus and num_gpus there
    assert cluster["runtime_env"]["env_vars"]["VERL_PLATFORM"] == "cpu"
    assert "HF_HUB_OFFLINE" not in cluster["runtime_env"]["env_vars"]


@pytest.mark.parametrize(
    ("environment", "netrc", "mode"),
    [
        ({"WANDB_API_KEY": "k"}, None, None),
        ({}, "machine elsewhere.org login user password k\n", "offline"),
        ({"WANDB_BASE_URL": "https://wandb.mine.org"}, "machine wandb.mine.org login user password k\n", None),
    ],
)
def test_wandb_without_a_key_is_offline(environment, netrc, mode, tmp_path):
    os.environ.update(environment)
    if netrc:
        (tmp_path / ".netrc").write_text(netrc)
        (tmp_path / ".netrc").chmod(0o600)
    config = {"trainer": {"logger": ["console", "wandb"], "default_local_dir": "/runs/x"}, "rpg": {"env": {}}}
    variables = wandb_environment(config)
    assert variables.get("WANDB_MODE") == mode
    assert variables["WANDB_DIR"] == "/runs/x"
    told = export(run_config({"trainer.logger": ["file", "wandb"], f"{RAY}.runtime_env": {"env_vars": variables}}))
    assert ["no W&B key" in line for line in told] == [True] * bool(mode)
    config["rpg"]["env"]["WANDB_MODE"] = "disabled"  # the user's choice
    assert "WANDB_MODE" not in wandb_environment(config)


def test_a_local_run_is_on_the_loopback_and_a_cluster_is_not():
    run = run_config({"ray_kwargs.ray_init.runtime_env": {"env_vars": {}}, "trainer.logger": ["file"]})
    for address, expected in (("10.0.0.1:6379", (None, None)), ("", ("0", "lo"))):
        os.environ["RAY_ADDRESS"] = address
        export(run)
        assert (os.environ.get("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"), os.environ.get("GLOO_SOCKET_IFNAME")) == expected
