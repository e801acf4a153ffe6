"""What the entry point does with verl's version: registers, says why it does not, and never breaks another verl."""

import os
import runpy
import subprocess
import sys

import pytest

import rpg.verl_plugin
from rpg.verl_plugin import version

OTHER = "0.10.0"


@pytest.fixture
def load(monkeypatch, capsys):
    """load(version, allowed, failure) -> whether it registered, and what stderr says."""

    def run(here, allowed, failure=None):
        called = []

        def register():
            called.append(True)
            if failure:
                raise failure

        monkeypatch.setattr(rpg.verl_plugin, "register", register)
        monkeypatch.setattr(version, "installed", lambda: here)
        monkeypatch.setenv(version.ALLOW, "1") if allowed else monkeypatch.delenv(version.ALLOW, raising=False)
        runpy.run_module("rpg.verl_plugin.autoload")
        return bool(called), capsys.readouterr().err

    return run


@pytest.mark.parametrize(
    ("here", "ours"),
    [("0.9.1", True), ("0.9.1+local", True), ("0.9.10", False), ("0.9.1.dev0", False), (OTHER, False), (None, False)],
)
def test_which_verl_is_ours(here, ours):
    assert version.is_ours(here) is ours


def test_the_verl_that_is_here_is_ours():
    assert version.is_ours(version.installed())


@pytest.mark.parametrize("allowed", [False, True])
def test_ours_is_registered_without_a_word(load, allowed):
    assert load("0.9.1", allowed) == (True, "")


def test_ours_fails_aloud(load):
    with pytest.raises(ValueError, match="taken"):
        load("0.9.1", False, ValueError("taken"))


@pytest.mark.parametrize("here", [OTHER, None])
def test_another_is_left_alone_and_told_so(load, here):
    registered, said = load(here, False)
    assert not registered
    assert said.startswith(
        f"WARNING: rpg is written for verl 0.9.1, and this is {here or 'a verl without a version'}: "
    )
    assert said.endswith("its losses and estimators are not registered (RPG_ALLOW_VERL=0)\n")


def test_another_is_tried_where_that_is_asked_for(load):
    registered, said = load(OTHER, True)
    assert registered
    assert said == "WARNING: rpg is written for verl 0.9.1, and this is 0.10.0: it is tried (RPG_ALLOW_VERL=1)\n"


def test_what_fails_with_another_is_said_and_not_raised(load):
    registered, said = load(OTHER, True, ImportError("no core_algos"))
    assert registered
    assert "ERROR: rpg could not register with verl in process" in said
    assert "no core_algos" in said


@pytest.mark.slow
def test_a_plain_verl_of_another_version_works(tmp_path):
    """The installed entry point, in a process where verl's metadata say another version."""
    (tmp_path / "verl-0.10.0.dist-info").mkdir()
    (tmp_path / "verl-0.10.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: verl\nVersion: 0.10.0\n")
    program = (
        "from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY as r; print('vanilla' in r, 'rpg_urkl' in r)"
    )
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {k: v for k, v in os.environ.items() if k not in (version.ALLOW, "VERL_USE_EXTERNAL_MODULES")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        env={**environment, "PYTHONPATH": path},
        check=True,
    )
    assert done.stdout.split()[-2:] == ["True", "False"]
    assert "this is 0.10.0: its losses and estimators are not registered" in done.stderr
