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
from rpg.checks.finding import Run

rpg.verl_plugin.register()
rpg.verl_plugin.vllm_plugin()
config = compose_config(["profile=gpu", "trainer.experiment_name=x", "rpg.script=run_rpg_7b_urkl1e-4"])
assert OmegaConf.select(config, "trainer.device") == "cuda"
asked = list(preflight.ask(Run(OmegaConf.to_container(config, resolve=True)), ["cheap", "verl"], ["settings"]))
import rpg.verl_plugin.rollout, rpg.verl_plugin.trainer
import rpg.verl_plugin.task_runner, rpg.launching.start, rpg.launching.run
print("ASKED", len(asked), *(name for name in sys.modules if name.startswith("rpg.verl_plugin.cpu")))
"""


@pytest.mark.slow  # imports verl
def test_nothing_of_the_cpu_is_imported():
    environment = {key: value for key, value in os.environ.items() if key != "VERL_PLATFORM"}
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
        env={**environment, "RPG_HOME": str(Path(__file__).parents[2])},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    (line,) = [line for line in done.stdout.splitlines() if line.startswith("ASKED ")]
    _, asked, *imported = line.split()
    assert int(asked) > 20
    assert imported == []
