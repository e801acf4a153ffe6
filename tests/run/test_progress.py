"""What a run shows of its steps, and the limits at which it ends."""

import io
import json
import subprocess
import sys

import pytest
from ray.exceptions import ActorDiedError

from rpg.run.progress import Screen
from rpg.run.train import limit
from tests.builders.toy_run import run_config

LIMITS = {"rpg.stall_limit": None, "rpg.time_limit": None, "rpg.console": "progress"}
NINE = {"trainer.total_training_steps": 9, "trainer.resume_mode": "disable"}


def screen_of(directory, **settings) -> tuple[Screen, io.StringIO]:
    """Return the screen of a run in this directory, without a terminal, and what it shows."""
    run = run_config({**LIMITS, **NINE, "trainer.default_local_dir": str(directory), **settings})
    (directory / "run.log").touch()
    return Screen(run, terminal := io.StringIO(), directory / "run.log"), terminal


def test_a_file_system_that_fails_for_a_moment_ends_no_run(tmp_path, monkeypatch):
    screen, _ = screen_of(tmp_path)
    (tmp_path / "metrics.jsonl").write_text('{"step": 1, "data": {}}\n')
    with monkeypatch.context() as patch:
        patch.setattr(type(tmp_path), "read_bytes", lambda path: (_ for _ in ()).throw(OSError(116, "stale handle")))
        screen.update()
        patch.setattr(type(tmp_path), "read_bytes", lambda path: b"\0" * 24 + b"\n")  # of a write that is under way
        screen.update()
    assert screen.step == 0
    screen.update()
    assert screen.progress == "step 1 of 9"


def shown(tmp_path, records: list[dict], **settings) -> tuple[str, Screen]:
    """Return what a run whose log has these steps shows without a terminal, and its screen."""
    (tmp_path / "metrics.jsonl").unlink(missing_ok=True)
    screen, terminal = screen_of(tmp_path, **settings)
    lines = [json.dumps({"step": step, "data": data}) + "\n" for step, data in enumerate(records, 1)]
    (tmp_path / "metrics.jsonl").write_text("".join(lines))
    screen.close()
    assert all(len(line) <= 80 for line in terminal.getvalue().splitlines() if str(tmp_path) not in line)
    return terminal.getvalue(), screen


def test_progress_without_a_terminal(tmp_path):
    """The reward before filtering, which filtered runs log; verl's score where the reward function returns no acc."""
    filtered = {"critic/score/mean": 0.5, "critic/score_before_filtering/mean": -0.25, "val-core/x/acc/mean@1": 1}
    text, screen = shown(tmp_path, [{}, filtered])
    assert all(words in text for words in ("step 2/9", "acc 1.000 reward -0.25"))
    assert screen.progress == "step 2 of 9"
    text = shown(tmp_path, [{"critic/score/mean": 0.5, "val-core/x/reward/mean@1": -0.4}])[0]
    assert "test score -0.400 reward +0.50" in text
    assert "step 1/?" in shown(tmp_path, [{}], **{"trainer.total_training_steps": None})[0]  # as many as epochs have
    # an advantage or log-prob that is NaN skips an optimizer step; the logger writes such metrics as null
    step = dict.fromkeys(("critic/advantages/max", "critic/advantages/min", "actor/rpg_kl", "val-core/x/acc/mean@1"))
    text, _ = shown(tmp_path, [{**step, "critic/score/mean": 0.5, "actor/pg_clipfrac": 0.1}])
    assert "reward +0.50 clip 10.0%" in text


def test_warnings_of_the_trainer_are_shown_once_a_kind(tmp_path):
    """In the words of run.log, where Ray names the process; they differ in numbers."""
    (tmp_path / "run.log").write_text("(RPGTaskRunner pid=7) warning: step 1: of an earlier start\n")
    screen, terminal = screen_of(tmp_path)
    for lines in ("warning: step 2: 97 of 256 responses of train were left out; reasons are in the log\n" + "x" * 99,
                  "\n(RPGTaskRunner pid=9) warning: step 3: 5 of 256 responses of train were left out; reasons are in "
                  "the log\nwarning: nothing of ours\nwarning: step 3: another\nwarning: step 4: unfin"):  # fmt: skip
        with open(tmp_path / "run.log", "a") as log:
            log.write(lines)
        screen.update()
    assert " ".join(terminal.getvalue().split()) == (
        "warning: step 2: 97 of 256 responses of train were left out; reasons are in the log warning: step 3: another"
    )


STALLS = """
import faulthandler, sys, threading, time
from rpg.verl_plugin import watchdog

stall, limit = (float(text) if text else None for text in sys.argv[1:3])
for _ in range(int(sys.argv[3])):
    watchdog.arm(stall, limit)
    time.sleep(0.4)
if sys.argv[4:]:
    faulthandler.cancel_dump_traceback_later()
rest = 3 if sys.argv[4:] else 50  # until it is ended, however late the watchdog gets the processor
threading.Thread(target=time.sleep, args=(rest,), name="waits").start()
time.sleep(rest)
"""


@pytest.mark.parametrize(
    ("stall", "limit", "steps", "ended", "code"),
    [
        ("0.8", "", 3, [], 1),  # three steps in time, then none
        ("", "0.8", 9, [], 1),  # within the fourth step
        ("2", "3", 1, ["disarmed"], 0),
    ],
)
def test_a_process_without_a_step_ends_with_the_stacks_of_its_threads(stall, limit, steps, ended, code):
    command = [sys.executable, "-c", STALLS, stall, limit, str(steps), *ended]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == code, done.stderr
    assert ("most recent call first" in done.stderr) == bool(code)


def test_a_death_at_a_limit_names_its_key(tmp_path):
    screen, _ = screen_of(tmp_path)
    screen.began -= 100
    screen.advanced -= 100
    for settings, error, key in (
        ({"rpg.stall_limit": 60.0}, ActorDiedError(), "rpg.stall_limit=60"),
        ({"rpg.time_limit": 100.0}, ActorDiedError(), "rpg.time_limit=100"),
        ({"rpg.stall_limit": 600.0}, ActorDiedError(), None),
        ({"rpg.stall_limit": 60.0}, ValueError("the batch is broken"), None),
    ):
        said = limit(run_config({**LIMITS, **settings}), screen, error)
        assert (said is None) if key is None else (key in said)
