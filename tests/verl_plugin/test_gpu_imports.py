"""On a GPU nothing of rpg.verl_plugin.cpu is imported: by registration, vLLM's plugin, checks or trainer."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import sys
import rpg.verl_plugin
from omegaconf import OmegaConf
from rpg.launching.compose import compose_config
from rpg.checks import preflight
from rpg.checks.check import Run

rpg.verl_plugin.register()
rpg.verl_plugin.vllm_plugin()
config = compose_config(["profile=gpu", "trainer.experiment_name=x", "rpg.script=run_rpg_7b_urkl1e-4"])
assert len(list(preflight.ask(Run(OmegaConf.to_container(config, resolve=True)), ["cheap", "verl"], ["settings"]))) > 20
import rpg.verl_plugin.rollout, rpg.verl_plugin.trainer
import rpg.verl_plugin.task_runner, rpg.launching.start, rpg.launching.run
assert not [name for name in sys.modules if name.startswith("rpg.verl_plugin.cpu")]
"""


@pytest.mark.slow  # imports verl
def test_nothing_of_the_cpu_is_imported():
    environment = {key: value for key, value in os.environ.items() if key != "VERL_PLATFORM"}
    environment["RPG_HOME"] = str(Path(__file__).parents[2])
    subprocess.run([sys.executable, "-c", PROGRAM], timeout=600, check=True, env=environment)
