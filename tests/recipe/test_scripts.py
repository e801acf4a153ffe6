"""Every launch script: generated from the table, agrees with its name, the release's settings and verl's checks.

The scripts' arguments are read from their text and composed in this process; a few scripts are also executed.
"""

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf
from verl.utils.config import omega_conf_to_dataclass

from rpg.checks import verl
from rpg.checks.preflight import SETTINGS, refuse
from rpg.config.compose import compose_config, of_script, resolve
from rpg.config.freeze import freeze
from rpg.config.run_config import RunConfig
from rpg.registry.methods import label_of
from rpg.registry.scripts import RECIPE, find
from scripts import hours, make_recipe
from tests.builders.launch_scripts import COVER, NAMES, SCRIPTS, composed, cover, run_of, unused_entries

# A column with a dot is verl 0.9.1's key. What is missing there is in docs/settings.md.
RELEASE = list(csv.DictReader(open(Path(__file__).with_name("release_settings.csv"))))  # noqa: SIM115

OF_THE_RELEASE = cover(sorted(row["script"].removeprefix("run_").removesuffix(".sh") for row in RELEASE))


@pytest.fixture(scope="session", autouse=True)
def unset_environment():
    with pytest.MonkeyPatch.context() as patch:
        for variable in ("MODEL_PATH", "TRAIN_FILE", "TEST_FILE", "CKPTS_DIR", "NNODES", "RAY_ADDRESS", "DRY_RUN"):
            patch.delenv(variable, raising=False)
        yield


def test_the_made_files_are_those_of_the_grammar():
    made = make_recipe.files()
    stale = [path.name for path, content in made.items() if not path.is_file() or path.read_text() != content]
    assert not stale, "python scripts/make_recipe.py"
    scripts = {path.resolve() for path in SCRIPTS.values()}
    assert scripts == {path for path in made if path.suffix == ".sh"}
    assert all(os.access(path, os.X_OK) for path in scripts)
    assert hours.table() in (RECIPE / "README.md").read_text(), "python scripts/hours.py"


@pytest.mark.slow
@pytest.mark.parametrize("name", COVER)
def test_a_script_runs_what_its_name_says_and_verl_accepts_it(name):
    """It passes the checks of settings, and verl's workers can build their dataclasses."""
    run, config, parts = run_of(name), composed(name), NAMES[name]
    assert not refuse(run, (*SETTINGS, verl.registered))
    for section in (config.actor_rollout_ref.actor, config.actor_rollout_ref.rollout):
        omega_conf_to_dataclass(section)
    assert run.devices == (1 if parts.size == "cpu" else 8)
    assert config.trainer.experiment_name == config.rpg.script == name
    assert config.rpg.method == parts.method
    assert label_of(config.rpg.method, config.rpg.divergence) == parts.label
    fixed = parts.reference == "fixed" or parts.method == "grpo_corrected"
    assert config.rpg.reference.mode == ("fixed" if fixed else "old")
    assert (config.trainer.v1.trainer_mode == "sync") == (parts.schedule == "sync")
    if parts.divergence:
        assert config.actor_rollout_ref.actor.policy_loss.loss_mode.startswith(f"rpg_{'rf_' * ('_rf' in name)}")
        assert f"_{parts.divergence}" in config.actor_rollout_ref.actor.policy_loss.loss_mode
        assert config.actor_rollout_ref.actor.policy_loss.kl_coef == float(parts.beta)
    if parts.clip:
        bounds = config.actor_rollout_ref.actor.clip_ratio_low, config.actor_rollout_ref.actor.clip_ratio_high
        assert bounds == tuple(map(float, parts.clip.split("_")))
    assert dict(config.reward.custom_reward_function.reward_kwargs) == {"judge": "release"}
    # beside an RPG loss the checks refuse both
    assert config.algorithm.use_kl_in_reward == (parts.method == "kl_in_reward")
    assert not (config.algorithm.use_kl_in_reward and config.actor_rollout_ref.actor.use_kl_loss)


@pytest.mark.slow
@pytest.mark.parametrize("entry", unused_entries())
def test_an_entry_that_no_script_chooses_composes(entry):
    """With the scripts every entry of every group."""
    run = RunConfig(resolve(compose_config([entry, "rpg.script=t"])[0]))
    if entry.startswith("method="):
        assert f"method={run.rpg.method}" == entry


@pytest.mark.parametrize("name", OF_THE_RELEASE)
def test_settings_are_the_releases(name):
    [row] = [row for row in RELEASE if row["script"] == f"run_{name}.sh"]
    config = composed(name)
    for key in (column for column in row if "." in column):
        value = OmegaConf.select(config, key)
        assert str(value) == row[key] or float(value) == float(row[key]), (key, value, row[key])
    own_loss = row["algorithm.adv_estimator"] == "rpg"
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
@pytest.mark.parametrize("name", ["dapo_7binstruct", "rpg_cpu_urkl1e-4"])
def test_executed_as_a_process(name, tmp_path):
    done = subprocess.run(
        ["bash", str(SCRIPTS[name])], cwd=tmp_path, capture_output=True, text=True, check=False,
        env={**os.environ, "DRY_RUN": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPROFILEIMPORTTIME": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    imports = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if line.startswith("import time:")}
    assert "hydra" in imports
    assert imports.isdisjoint({"torch", "ray", "verl", "vllm", "transformers", "pandas"})  # these take seconds
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("RPG_HOME", str(RECIPE.parents[1]))
        patch.chdir(tmp_path)
        wanted = freeze(of_script(find(name), []), contents=False)
        assert OmegaConf.create(done.stdout) == OmegaConf.create(wanted.config)
    assert not list(tmp_path.iterdir())  # a dry run leaves nothing behind


def dry_run(*command: str | Path, **environment: str) -> DictConfig:
    """Return the configuration of a dry run, whose stdout is only YAML."""
    environment = {**os.environ, "DRY_RUN": "1", "PYTHON": sys.executable, **environment}
    done = subprocess.run(["bash", *map(str, command)], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return OmegaConf.create(done.stdout)


OWN = """#!/usr/bin/env bash
# DAPO on the toy task
script=$(readlink -f "$0") && exec bash {launch} "$script" \\
    profile=cpu model=toy dataset=toy optim=toy method=dapo clip=0.1_0.1 "$@"
"""


@pytest.mark.slow
def test_a_script_of_the_users_is_named_by_its_file_and_the_typed_overrides(tmp_path):
    script = tmp_path / "lr=3" / "run_mine.sh"
    script.parent.mkdir()
    script.write_text(OWN.format(launch=RECIPE.resolve() / "launch.sh"))
    config = dry_run(script, "method=grpo", "actor_rollout_ref.actor.optim.lr=0.001")
    assert (config.trainer.experiment_name, config.rpg.script) == ("mine,lr=0.001,method=grpo", "mine")
    assert config.actor_rollout_ref.model.path.endswith("toy/model")


ODD = "a b,c='d'\"([{}$x\\ü#;&*"


@pytest.mark.slow
def test_paths_of_any_letters(tmp_path):
    """Paths of checkout, interpreter and environment variables."""
    root = tmp_path / ODD
    for package in ("rpg", "recipe"):
        source = RECIPE.resolve().parents[1] / package
        shutil.copytree(source, root / package, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    config = dry_run(root / "recipe/rpg/7b/run_dapo_7b.sh")
    assert config.rpg.data_dir == f"{root}/data"
    assert all(Path(name).is_relative_to(root) for name in config.data.val_files)
    paths = {name: f"/data/{ODD}/{name}" for name in ("MODEL_PATH", "TRAIN_FILE", "TEST_FILE", "CKPTS_DIR")}
    link = root / f"python {ODD}"
    link.write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    link.chmod(0o755)
    config = dry_run(SCRIPTS["grpo_cpu"], **paths, PYTHON=str(link))
    assert config.actor_rollout_ref.model.path == paths["MODEL_PATH"]
    assert config.data.train_files == paths["TRAIN_FILE"]
    assert config.data.val_files == paths["TEST_FILE"]
    assert config.trainer.default_local_dir == f"{paths['CKPTS_DIR']}/grpo_cpu"
