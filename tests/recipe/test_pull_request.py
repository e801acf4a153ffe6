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


@pytest.mark.slow
def test_a_script_and_verls_command_read_the_configuration(tmp_path):
    """In a directory with verl and the recipe, as a checkout of verl with our pull request."""
    (tmp_path / "verl").symlink_to(Path(importlib.util.find_spec("verl").origin).parent)
    subprocess.run(["bash", "scripts/make_recipe.sh", tmp_path / "recipe/rpg"], cwd=ROOT, check=True)

    def read(command: list[str], **environment: str) -> str:
        done = subprocess.run(command, cwd=tmp_path, env={**os.environ, **environment}, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr[-3000:]
        return done.stdout

    printed = read(["bash", f"recipe/rpg/{SCRIPT}"], PYTHON=sys.executable, DRY_RUN="1")
    assert f"run_{yaml.safe_load(printed)['trainer']['experiment_name']}.sh" == Path(SCRIPT).name
    command = [sys.executable, "-m", "verl.trainer.main_ppo", f"--config-path={tmp_path}/recipe/rpg/config",
               "--config-name=rpg_trainer", "--cfg=job", "--resolve"]  # fmt: skip
    groups = ["rpg.script=mine", "method=rpg_rf_clip_ppo", "profile=one_gpu", "model=qwen3-0.6b", "rpg.gpu_memory=24"]
    printed = read([*command, *groups], VERL_PLATFORM="cpu")
    actor = yaml.safe_load(printed[printed.index("actor_rollout_ref:") :])["actor_rollout_ref"]["actor"]
    assert actor["policy_loss"]["loss_mode"] == "rpg_rf_urkl_clip_ppo"
    assert actor["ppo_max_token_len_per_gpu"] == 4096  # by_memory
