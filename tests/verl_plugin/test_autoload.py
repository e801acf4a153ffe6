"""The entry point registers, or prints why not, and says once which tier stands."""

import os
import subprocess
import sys
from types import SimpleNamespace

import pytest
from verl.trainer.ppo import core_algos

from rpg.verl_plugin import version

PROGRAM = "from verl.trainer.ppo.core_algos import POLICY_LOSS_REGISTRY as r; print('vanilla' in r, 'rpg_urkl' in r)"


@pytest.mark.parametrize(
    ("here", "stands"),
    [
        ("0.9.0", True), ("0.9.1", True), ("0.9.1+local", True), ("0.9.10", True), ("0.9.1.dev0", True),
        ("0.8.0", False), ("0.9.0.dev0", False), ("0.10.0.dev0", False), ("0.10.0", False), ("1.0", False),
        (None, False),
    ],
)  # fmt: skip
def test_where_the_system_stands(here, stands):
    assert version.has_system(here) is stands


def test_what_the_core_needs():
    """0.5.0's functions take no rollout_is_weights, and before it there were no registries."""
    assert version.lacks(core_algos) == []
    features = {name: getattr(core_algos, name) for name in ("ADV_ESTIMATOR_REGISTRY", "agg_loss")}
    old = SimpleNamespace(**features, POLICY_LOSS_REGISTRY={"vanilla": lambda old_log_prob, log_prob: None})
    assert version.lacks(old) == ["rollout_is_weights of a policy loss"]
    assert version.lacks(SimpleNamespace(agg_loss=None)) == [
        "POLICY_LOSS_REGISTRY", "ADV_ESTIMATOR_REGISTRY", "rollout_is_weights of a policy loss",
    ]  # fmt: skip


def import_verl(monkeypatch, program: str) -> subprocess.CompletedProcess[str]:
    """Import verl in a new process, with the installed entry point."""
    for name in (version.ALLOW, version.SAID, "VERL_USE_EXTERNAL_MODULES"):
        monkeypatch.delenv(name, raising=False)
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)


@pytest.mark.slow
def test_the_tier_is_said_once(monkeypatch):
    """A process that has said it tells those that it starts."""
    done = import_verl(monkeypatch, f"{PROGRAM}; import os; print(os.environ[{version.SAID!r}])")
    assert done.stdout.split()[-3:] == ["True", "True", "1"]
    said = [line for line in done.stderr.splitlines() if line.startswith("rpg: ")]
    assert said == [
        f"rpg: losses and estimators are registered with verl {version.installed()} (tier system: everything works)"
    ]


@pytest.mark.full  # scripts/verl_matrix.py runs such versions
def test_another_version_with_the_features_is_core(tmp_path, monkeypatch):
    """This verl, with the metadata of a version that does not exist."""
    (tmp_path / "verl-0.10.0.dist-info").mkdir()
    (tmp_path / "verl-0.10.0.dist-info/METADATA").write_text("Metadata-Version: 2.1\nName: verl\nVersion: 0.10.0\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=os.pathsep)
    done = import_verl(monkeypatch, PROGRAM)
    assert done.stdout.split()[-2:] == ["True", "True"]
    assert "registered with verl 0.10.0 (tier core: " in done.stderr
