"""`rpg reproduce`: its plan, its commands and their failures. tests/e2e/test_reproduce.py makes the real runs.

A stand-in writes a run's files in the place of a launch script.
"""

import os
import signal
import sys
import threading
from pathlib import Path

import pytest

from rpg.cli import main
from rpg.registry.scripts import Script
from rpg.results.reproduce_command import plan

ROOT = Path(__file__).resolve().parents[2]
ONE = ["--profile", "cpu", "--steps", "2", "--methods", "grpo"]
STAND_IN = """
import os, sys, time
from pathlib import Path
from tests.builders.runs import config, write_run
settings = dict(text.split("=", 1) for text in sys.argv[1:])
name, seed, steps = (settings[key] for key in ("trainer.experiment_name", "data.seed", "trainer.total_training_steps"))
lines = [(step, {"val-core/toy_sum/acc/mean@1": 0.1 * step + 0.01 * int(seed)}) for step in range(int(steps) + 1)]
fails = name == os.environ.get("STAND_IN_FAILS")
write_run(Path(settings["trainer.default_local_dir"]), lines[:2] if fails else lines,
          config(name, loss="vanilla", seed=int(seed), steps=int(steps)))
print("broken on purpose" if fails else "done", flush=True)
time.sleep(float(os.environ.get("STAND_IN_SECONDS", "0")))
sys.exit(7 if fails else 0)
"""


@pytest.fixture
def stand_in(tmp_path, monkeypatch):
    """Let the stand-in make the runs."""
    (tmp_path / "stand_in.py").write_text(STAND_IN)
    monkeypatch.setattr(Script, "command", [sys.executable, str(tmp_path / "stand_in.py")])
    monkeypatch.setenv("PYTHONPATH", str(ROOT))


def reproduce(out: Path, *arguments: str) -> int:
    return main(["reproduce", "8", *arguments, "--out", str(out)])


def test_a_command_has_its_seed_what_was_typed_and_the_table_s_own_sets():
    (planned,) = plan(7, ["DAPO"], "gpu", [3], Path("/out"), ["data.train_batch_size=64"]).items()
    directory, (_, script, *overrides) = planned
    settings = dict(text.split("=", 1) for text in overrides)
    assert script.endswith("run_dapo_4b_4k.sh")
    assert settings["trainer.default_local_dir"] == str(directory) == "/out/runs/dapo_4b_4k-seed3"
    assert settings["data.seed"] == settings["actor_rollout_ref.rollout.seed"] == "3"
    assert settings["data.train_batch_size"] == "64"
    assert "minerva-math.parquet" in settings["data.val_files"]
    assert "trainer.total_training_steps" not in settings


@pytest.mark.parametrize(("argument", "named"), [("data.seed=3", "--seeds"), ("--methods=rpg-urk", "RPG-URKL")])
def test_refused_before_anything_is_touched(stand_in, tmp_path, capsys, argument, named):
    arguments = [*ONE, argument] if argument.startswith("-") else [argument, *ONE]
    assert reproduce(tmp_path / "out", *arguments) == 2
    assert named in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_run_that_fails_is_named_and_the_rest_is_done(stand_in, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("STAND_IN_FAILS", "grpo_cpu-seed1")
    assert reproduce(tmp_path, *ONE, "--seeds", "1", "3") == 1
    assert "failed: grpo_cpu-seed1: ended with exit code 7" in capsys.readouterr().err
    monkeypatch.delenv("STAND_IN_FAILS")
    assert reproduce(tmp_path, *ONE, "--seeds", "1", "3") == 0
    # accuracies at step 2: 0.21 and 0.23, whose mean is 0.22 and whose standard error sqrt(0.0002 / 2)
    assert "0.2200 ± 0.0100" in capsys.readouterr().out


def test_a_signal_reaches_the_run_and_ends_the_rest(stand_in, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("STAND_IN_SECONDS", "60")
    log = tmp_path / "runs/grpo_cpu-seed1/metrics.jsonl"

    def press() -> None:
        while not log.is_file():
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    (thread := threading.Thread(target=press, daemon=True)).start()
    assert reproduce(tmp_path, *ONE, "--seeds", "1", "2") == 143
    thread.join()
    assert "the same command continues" in capsys.readouterr().err
    assert not (tmp_path / "runs/grpo_cpu-seed2").exists()
