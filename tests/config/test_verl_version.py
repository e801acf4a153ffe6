"""Another verl version is rejected before it is read, or tried with a warning."""

import pytest

from rpg.config import compose
from rpg.run import start
from rpg.verl_plugin import version
from tests.builders.toy_run import overrides

OTHER = "0.10.0"


@pytest.fixture
def other(monkeypatch):
    """Make verl's metadata another version, without RPG_ALLOW_VERL."""
    monkeypatch.setattr(version, "installed", lambda: OTHER)
    monkeypatch.delenv(version.ALLOW, raising=False)
    monkeypatch.setenv("VERL_PLATFORM", "cpu")


@pytest.mark.parametrize("dry", ["", "1"])
def test_another_verl_is_refused(other, toy, monkeypatch, capsys, dry):
    """Before its configuration is read, which ours may not fit."""
    monkeypatch.setenv("DRY_RUN", dry)
    monkeypatch.setattr(compose, "compose_config", lambda overrides: pytest.fail("it was composed"))
    assert start.start(None, overrides(toy)) == 2
    assert f"verl={OTHER}" in capsys.readouterr().err
    assert not (toy / "run").exists()


def test_another_verl_that_is_tried_is_warned_about(other, toy, monkeypatch):
    monkeypatch.setenv(version.ALLOW, "1")
    _, notes = compose.compose(None, overrides(toy))
    assert [note for note in notes if note.startswith(f"warning: verl={OTHER}: is not ")]
