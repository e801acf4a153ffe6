"""The monitor: its errors and those of the import server stop the run."""

import io
import signal

import pytest

from rpg.run.monitor import INTERRUPT, Monitor
from rpg.run.signals import FAILED, TIMED_OUT
from rpg.verl_plugin.cpu.preload import Preloaded
from tests.builders.toy_run import run_config

LIMITS = {"rpg.stall_limit": None, "rpg.time_limit": None, "rpg.console": "progress"}
NINE = {"trainer.total_training_steps": 9, "trainer.resume_mode": "disable"}


@pytest.fixture
def interrupts():
    received: list[int] = []
    before = signal.signal(INTERRUPT, lambda number, frame: received.append(number))
    yield received
    signal.signal(INTERRUPT, before)


@pytest.mark.parametrize(
    ("limits", "metrics", "code", "reason"),
    [
        ({}, "[]\n", FAILED, "TypeError"),
        ({"rpg.stall_limit": 0.1}, "", TIMED_OUT, "rpg.stall_limit"),
        ({"rpg.time_limit": 0.1}, "", TIMED_OUT, "rpg.time_limit"),
        ({}, None, FAILED, "broken_module"),
    ],
)
def test_what_ends_a_run(interrupts, tmp_path, monkeypatch, limits, metrics, code, reason):
    """metrics: written while the monitor runs; None: a module of rpg.preload cannot be imported."""
    (tmp_path / "broken_module.py").write_text("import no_such_part\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    server = Preloaded(["json", "broken_module"], []) if metrics is None else None
    run = run_config({**LIMITS, **limits, **NINE})
    terminal = io.StringIO()
    monitor = Monitor(run, tmp_path / "metrics.jsonl", terminal, server.failure if server else lambda: None)
    monitor.start()
    (tmp_path / "metrics.jsonl").write_text(metrics or "")
    monitor.join(timeout=120)
    monitor.stop()
    if server:
        server.close()
    assert monitor.verdict is not None
    assert monitor.verdict.code == code
    assert reason in monitor.verdict.reason
    assert interrupts == [INTERRUPT]
    assert terminal.getvalue() == ""


def test_progress_without_a_terminal(tmp_path):
    run = run_config({**LIMITS, **NINE})
    monitor = Monitor(run, tmp_path / "metrics.jsonl", terminal := io.StringIO(), lambda: None)
    (tmp_path / "metrics.jsonl").write_text(
        '{"step": 3, "data": {"critic/score/mean": 0.5, "val-core/x/acc/mean@1": 1}}\n'
    )
    monitor.start()
    monitor.stop()
    line = terminal.getvalue()
    assert all(text in line for text in ("step 3/9", "reward +0.50", "acc 1.000"))
