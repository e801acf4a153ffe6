"""The entry point registers, or prints why not, and never breaks another verl version."""

import os
import subprocess
import sys

import pytest

from rpg.verl_plugin import version


@pytest.mark.parametrize(
    ("here", "ours"),
    [("0.9.1", True), ("0.9.1+local", True), ("0.9.10", False), ("0.9.1.dev0", False), (None, False)],
)
def test_which_verl_is_ours(here, ours):
    assert version.is_ours(here) is ours


@pytest.mark.slow
def test_a_plain_verl_of_another_version_works(tmp_path, monkeypatch):
    """The installed entry point, in a process with metadata of another verl version."""
    (tmp_path / "verl-0.10.0.dist-info").mkdir()
    (tmp_path / "verl-0.10.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: verl\nVersion: 0.10.0\n")
    program = (
        "from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY as r; print('vanilla' in r, 'rpg_urkl' in r)"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    for name in (version.ALLOW, "VERL_USE_EXTERNAL_MODULES"):
        monkeypatch.delenv(name, raising=False)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split()[-2:] == ["True", "False"]
    assert "this is 0.10.0: its losses and estimators are not registered" in done.stderr
