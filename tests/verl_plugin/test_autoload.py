"""The entry point registers with verl, or prints why not."""

import os
import subprocess
import sys

import pytest

PROGRAM = "from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY as r; print('vanilla' in r, 'rpg_urkl' in r)"


@pytest.mark.slow
@pytest.mark.parametrize("works", [True, False])
def test_the_installed_entry_point_registers_or_says_why_not(tmp_path, works):
    """verl itself says nothing about a plugin that fails."""
    (tmp_path / "sitecustomize.py").write_text("" if works else "import sys; sys.modules['rpg.objectives'] = None\n")
    search = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": search}
    )
    assert done.stdout.split()[-2:] == ["True", str(works)]
    assert ("ERROR: rpg could not register with verl" in done.stderr) is not works
