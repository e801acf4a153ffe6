"""Every launch script: generated from the table, agrees with its name, the release's settings and verl's checks.

The scripts' arguments are read from their text and composed in this process; two scripts are also executed.
"""

import csv
import os
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import OmegaConf

from rpg.config.compose import compose_config, contradictions, resolve
from rpg.config.freeze import freeze
from rpg.config.keys import by_name
from rpg.config.run_config import RunConfig
from rpg.names import DIVERGENCES
from rpg.registry import recipe
from rpg.registry.labels import method_of, method_of_name
from rpg.registry.scripts import FOLDERS, listed, parse
from scripts import make_recipe
from tests.builders.launch_scripts import COVER, RECIPE, SCRIPTS, arguments, composed, cover

RELEASE = list(csv.DictReader(open(Path(__file__).with_name("release_settings.csv"))))  # noqa: SIM115
ACTOR = "actor_rollout_ref.actor"

# Column of the release's settings -> verl 0.9.1's key. What is missing here is in docs/settings.md.
KEYS = {
    "clip_low": f"{ACTOR}.clip_ratio_low",
    "clip_high": f"{ACTOR}.clip_ratio_high",
    "clip_c": f"{ACTOR}.clip_ratio_c",
    "filter_groups": "algorithm.filter_groups.enable",
    "overlong": "reward.reward_kwargs.overlong_buffer_cfg.enable",
    "overlong_len": "reward.reward_kwargs.overlong_buffer_cfg.len",
    "lr": f"{ACTOR}.optim.lr",
    "wd": f"{ACTOR}.optim.weight_decay",
    "model": "actor_rollout_ref.model.path",
    "adv_estimator": "algorithm.adv_estimator",
    "max_prompt": "data.max_prompt_length",
    "max_resp": "data.max_response_length",
    "train_bsz": "data.train_batch_size",
    "mini_bsz": f"{ACTOR}.ppo_mini_batch_size",
    "n": "actor_rollout_ref.rollout.n",
    "test_freq": "trainer.test_freq",
    "save_freq": "trainer.save_freq",
    "loss_agg": f"{ACTOR}.loss_agg_mode",
    "entropy": f"{ACTOR}.entropy_coeff",
    "grad_clip": f"{ACTOR}.optim.clip_grad",
    "val_temp": "actor_rollout_ref.rollout.val_kwargs.temperature",
    "val_top_p": "actor_rollout_ref.rollout.val_kwargs.top_p",
    "temp": "actor_rollout_ref.rollout.temperature",
}


OF_THE_RELEASE = cover(sorted(row["script"].removeprefix("run_").removesuffix(".sh") for row in RELEASE))


@pytest.fixture(scope="session", autouse=True)
def unset_environment():
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("MODEL_PATH", "TRAIN_FILE", "TEST_FILE", "CKPTS_DIR", "NNODES", "RAY_ADDRESS", "DRY_RUN"):
            patch.delenv(variable, raising=False)
        yield


def test_the_made_files_are_those_of_the_table():
    made = make_recipe.files()
    stale = [path.name for path, content in made.items() if not path.is_file() or path.read_text() != content]
    assert not stale, "python scripts/make_recipe.py"
    pages = {RECIPE / "README.md", RECIPE.parents[1] / "data/README.md"}
    assert {*SCRIPTS.values(), *(RECIPE / "config/method").iterdir()} == made.keys() - pages
    assert all(os.access(path, os.X_OK) for path in SCRIPTS.values())
    found = {name: recipe.find(name).path for name, parts in listed().items() if parts.size in FOLDERS}
    assert {name: path and path.resolve() for name, path in found.items()} == SCRIPTS


@pytest.mark.slow
@pytest.mark.parametrize("name", COVER)
def test_a_script_runs_what_its_name_says(name):
    config = composed(name)
    assert config.trainer.experiment_name == name
    assert contradictions(parse(name), config) == {}  # by the registry as by the YAML
    if name in SCRIPTS:
        assert list(recipe.find(name).overrides) == arguments(SCRIPTS[name])  # the file says what the registry says
    label = parse(name).label
    assert method_of(by_name(OmegaConf.to_container(config))) == label
    assert method_of_name(name) == label
    function = config.reward.custom_reward_function
    assert (function.path, function.name) == ("pkg://rpg.rewards", "compute_score")
    assert dict(function.reward_kwargs) == {"judge": "release"}
    actor, model = config.actor_rollout_ref.actor, config.actor_rollout_ref.model
    # the KL is counted once
    in_loss = actor.policy_loss.loss_mode != "vanilla"
    assert not (in_loss and actor.use_kl_loss)
    assert config.algorithm.use_kl_in_reward == (parse(name).method == "kl_in_reward")
    assert not (config.algorithm.use_kl_in_reward and (in_loss or actor.use_kl_loss))
    kernels = model.use_remove_padding, model.override_config.attn_implementation
    assert kernels == ((False, "sdpa") if parse(name).size == "cpu" else (True, "flash_attention_2"))
    assert actor.use_dynamic_bsz


def test_all_of_the_releases_names_and_the_grid_are_there():
    assert {row["script"] for row in RELEASE} <= {path.name for path in (RECIPE / "7b").iterdir()}
    assert len(RELEASE) == 60
    objectives = [
        f"rpg_{{}}_{d}1e-4{rest}"
        for d in DIVERGENCES
        for rest in ("", "_rf", "_rf_clip_ppo", "_rf_clip_ppo_0.1_0.1", "_rf_clip_ppo_0.2_0.28")
    ]
    heads = ["dapo_{}", "grpo_{}", "grpo_corrected_{}", "rfpp_{}_1e-4", "rfppb_{}_1e-4", "rpg_{}", *objectives]
    grid = {h.format("7b") + c + d for h in heads for c in ("", "_schedulefree") for d in ("", "_7binstruct")}
    # the release's short form stands for one of them
    sync = {n for n in SCRIPTS if parse(n).size == "7b" and parse(n).schedule == "sync"}
    assert grid - {"dapo_7b_7binstruct"} | {"dapo_7binstruct"} <= sync


@pytest.mark.parametrize("name", OF_THE_RELEASE)
def test_settings_are_the_releases(name):
    [row] = [row for row in RELEASE if row["script"] == f"run_{name}.sh"]
    config = composed(name)
    for column, key in KEYS.items():
        value = OmegaConf.select(config, key)
        assert str(value) == row[column] or float(value) == float(row[column]), (column, value, row[column])
    own_loss = row["adv_estimator"] == "rpg"
    actor = config.actor_rollout_ref.actor
    if own_loss:
        assert actor.policy_loss.loss_mode == row["kl_loss_type"]
        assert actor.policy_loss.kl_coef == float(row["kl_loss_coef"])
    elif row["use_kl_loss"] == "True":
        assert (actor.use_kl_loss, actor.kl_loss_type) == (True, row["kl_loss_type"])
        assert actor.kl_loss_coef == float(row["kl_loss_coef"])
    else:
        assert not actor.use_kl_loss
    # the schedule-free optimizer warms up by itself, verl's scheduler does it for the others
    own_warmup = (actor.optim.override_optimizer_config or {}).get("warmup_steps", 0)  # in optimizer steps
    updates = config.data.train_batch_size // actor.ppo_mini_batch_size
    assert max(actor.optim.lr_warmup_steps, own_warmup // updates) == int(row["warmup"])
    assert config.trainer.total_training_steps == 400  # paper, Appendix H


@pytest.mark.slow
@pytest.mark.parametrize("name", COVER)
def test_verl_accepts_it(name):
    """All preflight checks of settings, including verl's own validation; 8 GPUs for 7b and 4b."""
    from rpg.checks.preflight import CHEAP_OR_VERL, refuse

    config = composed(name)
    devices = {"cpu": 1, "1gpu": 1}.get(parse(name).size, 8)
    assert config.trainer.n_gpus_per_node * config.trainer.nnodes == devices
    assert not refuse(RunConfig(OmegaConf.to_container(config, resolve=True)), CHEAP_OR_VERL, ["settings"])


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["dapo_7binstruct", "rpg_4b_ufkl1e-3_rf_clip_ppo_0.2_0.28_noiterref_4k", "rpg_cpu_urkl1e-4"]
)
def test_executed_as_a_process(name, tmp_path):
    done = subprocess.run(
        ["bash", str(SCRIPTS[name])],
        cwd=tmp_path,
        env={**os.environ, "DRY_RUN": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPROFILEIMPORTTIME": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    imports = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "hydra" in imports
    assert imports.isdisjoint({"torch", "ray", "verl", "vllm", "transformers", "pandas"})  # these take seconds
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RPG_HOME", str(RECIPE.parents[1]))
        patch.chdir(tmp_path)
        wanted = freeze(RunConfig(resolve(compose_config([f"rpg.script={name}", *arguments(SCRIPTS[name])]))))
        assert OmegaConf.create(done.stdout) == OmegaConf.create(wanted.config)
    assert not list(tmp_path.iterdir())  # a dry run leaves nothing behind


@pytest.mark.parametrize(("script", "given", "code"), [("cpu/run_grpo_cpu.sh", ["--help"], 0), ("launch.sh", [], 2)])
def test_usage(script, given, code):
    command = ["bash", str(RECIPE / script), *given]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert ended.returncode == code
    assert "usage: bash run_NAME.sh" in ended.stdout + ended.stderr


def test_a_misspelt_name_does_not_train_the_defaults():
    command = ["bash", str(RECIPE / "launch.sh"), "dapo_4b_noiterref_4k", "trainer.total_training_steps=1"]
    environment = {**os.environ, "DRY_RUN": "1", "PYTHON": sys.executable}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (ended.returncode, ended.stdout) == (2, "")
    assert "a name of your own needs method=" in ended.stderr


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "override", "script"),
    [
        ("grpo_qwen3-0.6b_lora", "data.train_batch_size=64", "grpo_qwen3-0.6b_lora"),  # without a file
        ("grpo_cpu", "trainer.total_training_steps=5", "grpo_cpu"),  # with one
        ("mine_7b", "method=dapo", "mine_7b"),  # not in the registry
    ],
)
def test_a_run_by_name_has_the_overrides_of_the_name(name, override, script, tmp_path, monkeypatch):
    monkeypatch.setenv("RPG_HOME", str(RECIPE.parents[1]))
    monkeypatch.setenv("GPU_MEMORY_GB", "24")
    monkeypatch.chdir(tmp_path)
    command = ["bash", str(RECIPE / "launch.sh"), name, override]
    environment = {**os.environ, "DRY_RUN": "1", "PYTHON": sys.executable}
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    assert ended.returncode == 0, ended.stderr
    own = recipe.find(name).overrides if name in listed() else []
    wanted = freeze(resolve(compose_config([f"rpg.script={script}", *own, override])))
    assert OmegaConf.create(ended.stdout) == OmegaConf.create(wanted.config)
