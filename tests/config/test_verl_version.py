"""Another verl version is rejected before its configuration is read, or tried with a warning."""

import pytest

from rpg.config import compose
from rpg.run import start
from rpg.verl_plugin import version
from tests.builders.toy_run import overrides


@pytest.mark.parametrize("dry", ["", "1"])
def test_another_verl_is_refused_unless_it_is_allowed(toy, monkeypatch, capsys, dry):
    monkeypatch.setattr(version, "installed", lambda: "0.10.0")
    monkeypatch.delenv(version.ALLOW, raising=False)
    monkeypatch.setenv("DRY_RUN", dry)
    with monkeypatch.context() as patch:
        patch.setattr(compose, "compose_config", lambda overrides: pytest.fail("it was composed"))
        assert start.start(None, overrides(toy)) == 2
    assert "verl=0.10.0" in capsys.readouterr().err
    assert not (toy / "run").exists()
    monkeypatch.setenv(version.ALLOW, "1")
    _, notes = compose.compose(None, overrides(toy))
    assert [note for note in notes if note.startswith("warning: verl=0.10.0: is not ")]
