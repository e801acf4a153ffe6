"""The monitor of a run: what it notices ends the run, its own errors included, and it shows what is new."""

import io
import signal

import pytest

from rpg.checks.check import Run
from rpg.launching.monitor import INTERRUPT, Monitor
from rpg.launching.signals import FAILED
from rpg.verl_plugin.cpu.preload import Preloaded


@pytest.fixture
def monitored(tmp_path):
    """Watches over metrics in tmp_path, whose interrupts are counted."""
    interrupts: list[int] = []
    before = signal.signal(INTERRUPT, lambda number, frame: interrupts.append(number))
    made: list[Monitor] = []

    def monitor(failure=lambda: None, **limits) -> tuple[Monitor, list[int]]:
        rpg = {"stall_limit": None, "time_limit": None, "console": "full", **limits}
        config = Run({"rpg": rpg, "trainer": {"total_training_steps": 9}})
        made.append(Monitor(config, tmp_path / "metrics.jsonl", io.StringIO(), failure))
        return made[-1], interrupts

    yield monitor
    for each in made:
        each.stop()
    signal.signal(INTERRUPT, before)


def test_an_error_in_the_watch_ends_the_run(monitored, tmp_path):
    monitor, interrupts = monitored()
    monitor.start()
    (tmp_path / "metrics.jsonl").write_text("[]\n")
    monitor.join(timeout=120)
    assert monitor.verdict is not None
    assert monitor.verdict.code == FAILED
    assert "TypeError" in monitor.verdict.reason
    assert interrupts == [INTERRUPT]


def test_a_failed_import_ends_the_run_with_1_and_names_the_module(monitored, tmp_path, monkeypatch):
    (tmp_path / "broken_module.py").write_text("import no_such_part\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    server = Preloaded(["json", "broken_module"], [], tmp_path / "preload.log")
    monitor, interrupts = monitored(server.failure)
    try:
        monitor.start()
        monitor.join(timeout=120)
        assert monitor.verdict is not None
        assert monitor.verdict.code == FAILED == 1
        assert "broken_module" in monitor.verdict.reason
        assert interrupts == [INTERRUPT]
    finally:
        server.close()
