"""The watch over a run: a failed import in the import server ends it as a failure, and says which module."""

import io
import signal

import pytest
from omegaconf import OmegaConf

from recipe.rpg.exit_codes import FAILED
from recipe.rpg.watch import INTERRUPT, Watch
from rpg.preload import Preloaded


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("import no_such_part", "ModuleNotFoundError: No module named 'no_such_part'"),
        ("raise RuntimeError('one\\ntwo')", "RuntimeError: one two"),
        ("raise SystemExit('gone')", "SystemExit: gone"),
    ],
)
def test_a_failed_import_ends_the_run_with_1_and_names_the_module(tmp_path, monkeypatch, source, why):
    (tmp_path / "broken_module.py").write_text(f"{source}\n")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path), prepend=":")
    limits = {"stall_limit": None, "time_limit": None, "console": "full"}
    config = OmegaConf.create({"rpg": limits, "trainer": {"total_training_steps": 2}})
    interrupts = []
    before = signal.signal(INTERRUPT, lambda number, frame: interrupts.append(number))
    server = Preloaded(["json", "broken_module"], [], tmp_path / "preload.log")
    watch = Watch(config, tmp_path / "metrics.jsonl", io.StringIO(), server.failure)
    try:
        watch.start()
        watch.join(timeout=120)
        assert watch.verdict is not None
        assert watch.verdict.code == FAILED == 1
        assert f"preload: importing broken_module failed: {why} ({tmp_path / 'preload.log'})" in watch.verdict.reason
        assert interrupts == [INTERRUPT]
    finally:
        watch.stop()
        server.close()
        signal.signal(INTERRUPT, before)
