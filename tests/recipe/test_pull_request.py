"""scripts/make_recipe.sh: the recipe runs as recipe/rpg of a directory that has verl."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[2]
SCRIPT = "cpu/run_rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28.sh"


@pytest.fixture(scope="module")
def checkout(tmp_path_factory) -> Path:
    """Return a directory with verl and the recipe, as a checkout of verl with our pull request."""
    root = tmp_path_factory.mktemp("checkout")
    (root / "verl").symlink_to(Path(importlib.util.find_spec("verl").origin).parent)
    subprocess.run(["bash", "scripts/make_recipe.sh", root / "recipe/rpg"], cwd=ROOT, check=True)
    return root


@pytest.mark.slow
def test_a_script_starts_there(checkout):
    environment = {**os.environ, "PYTHON": sys.executable, "DRY_RUN": "1"}
    command = ["bash", f"recipe/rpg/{SCRIPT}"]
    done = subprocess.run(command, cwd=checkout, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"run_{yaml.safe_load(done.stdout)['trainer']['experiment_name']}.sh" == Path(SCRIPT).name


@pytest.mark.slow
def test_verls_command_reads_the_configuration(checkout):
    command = [sys.executable, "-m", "verl.trainer.main_ppo", f"--config-path={checkout}/recipe/rpg/config",
               "--config-name=rpg_trainer", "--cfg=job", "--resolve"]  # fmt: skip
    groups = ["rpg.script=mine", "method=rpg_rf_clip_ppo", "profile=one_gpu", "model=qwen3-0.6b", "rpg.gpu_memory=24"]
    done = subprocess.run([*command, *groups], cwd=checkout, capture_output=True, text=True, check=False,
                          env={**os.environ, "VERL_PLATFORM": "cpu"})  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    config = yaml.safe_load(done.stdout[done.stdout.index("actor_rollout_ref:") :])
    actor = config["actor_rollout_ref"]["actor"]
    assert actor["policy_loss"]["loss_mode"] == "rpg_rf_urkl_clip_ppo"
    assert actor["ppo_max_token_len_per_gpu"] == 4096  # by_memory
