"""The installed verl passes scripts/check_verl.py; the losses under older versions equal those under it."""

import inspect
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
import yaml
from verl.workers.config import PolicyLossConfig

from rpg.verl_plugin.config import RPGPolicyLossConfig
from scripts import check_verl


@pytest.mark.parametrize("question", ["missing_imports", "changed_signatures", "unknown_keys"])
def test_verl_is_as_expected(question):
    assert list(getattr(check_verl, question)()) == []


def test_the_lines_are_there():
    assert list(check_verl.changed_lines(yaml.safe_load(check_verl.CONTRACT.read_text()))) == []


def test_imports_and_overrides_are_found():
    """Otherwise the empty lists above would be meaningless."""
    assert any(path.startswith("verl.workers.utils.padding") for path in check_verl.imported())
    overridden = {(cls.__name__, name) for cls, name, _, _ in check_verl.overrides()}
    assert {("RPGActor", "train_batch"), ("BatchByPrompt", "sample")} <= overridden


def test_no_setting_of_ours_takes_the_name_of_one_of_verls():
    ours = inspect.get_annotations(RPGPolicyLossConfig)
    assert ours.keys().isdisjoint(field.name for field in fields(PolicyLossConfig))


@pytest.mark.full
def test_older_versions_of_verl():
    """Without a package index and without cached wheels, which pip downloads once, this fails in the full tier."""
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [sys.executable, "scripts/verl_matrix.py"], cwd=root, capture_output=True, text=True, timeout=900
    )
    print(done.stdout)
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count(" equal|") >= 4  # a comparison of nothing would pass too
    assert done.stdout in (root / "docs/plain_verl.md").read_text(), "python scripts/verl_matrix.py --write"
