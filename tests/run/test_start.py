"""Rejected runs: exit code 2, one line per error, no side effects."""

import pytest

from rpg.config import compose
from rpg.run import start
from rpg.verl_plugin import version
from tests.builders.toy_run import overrides


def errors(text: str) -> list[str]:
    return [line.removeprefix("error: ") for line in text.splitlines() if line.startswith("error: ")]


def test_everything_that_is_wrong_is_shown(toy, capsys):
    """All wrong types first, as the other checks rely on them, then settings, then files."""
    types = ["actor_rollout_ref.rollout.n=abc", "rpg.time_limit=2h"]
    settings = ["actor_rollout_ref.actor.clip_ratio=0.3"]
    files = ["data.val_files=/nowhere/test.parquet", "actor_rollout_ref.model.path=/nowhere/model"]
    for given, wrong in (([*types, *settings, *files], types), ([*settings, *files], settings), (files, files)):
        assert start.start(None, [*overrides(toy), *given]) == 2
        keys = [line.partition("=")[0] for line in errors(capsys.readouterr().err)]
        assert sorted(keys) == sorted(item.partition("=")[0] for item in wrong)
        assert not (toy / "run").exists()


def test_a_refusal_by_verl_leaves_nothing_behind(toy, capsys):
    """Also the import server, which has started with its log in the run's directory."""
    loss = "actor_rollout_ref.actor.policy_loss.loss_mode=gsp"
    preload = ["rpg.preload.early=[]", "rpg.preload.late=[rpg.verl_plugin.cpu.preload.ray_ids]"]
    assert start.start(None, [*overrides(toy), "method=null", "algorithm.adv_estimator=rpg", loss, *preload]) == 2
    assert any(line.startswith(f"{loss}: is not registered with verl") for line in errors(capsys.readouterr().err))
    assert not (toy / "run").exists()


def test_another_verl_is_refused(toy, monkeypatch, capsys):
    monkeypatch.setattr(version, "installed", lambda: "0.9.0")
    monkeypatch.setattr(compose, "compose_config", lambda overrides: pytest.fail("it was composed"))
    assert start.start(None, overrides(toy)) == 2
    assert "verl=0.9.0" in capsys.readouterr().err
    assert not (toy / "run").exists()
