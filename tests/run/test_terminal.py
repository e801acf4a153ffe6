"""A run in a terminal: few lines, none wraps, Ctrl-C and SIGTERM end it in order and leave nothing."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rpg.run.train import end_of
from tests.terminal import SHOW, Terminal, assert_in_order, shown_lines, with_environment

ROOT = Path(__file__).parents[2]
MARK = "RPG_TEST_TERMINAL"

# A run's driver without Ray: it makes steps and prints as much as verl, Ray and vLLM do; a process that it started too.
DRIVER = """
import json, os, subprocess, sys, time
from pathlib import Path
from tests.builders.toy_run import run_config
from rpg.run import train as launching

directory, steps, ending = Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3]

def train(run, screen, server):
    child = ["sh", "-c", "while :; do echo from a worker; sleep 0.05; done"]
    subprocess.Popen(child)
    for step in range(screen.step + 1, steps + 1):
        print("\\n".join(f"verl prints {line}" * 9 for line in range(200)), flush=True)
        data = {"critic/score/mean": -0.5, "actor/rpg_kl": 1e-3, "actor/pg_clipfrac": 0.125, "timing_s/step": 30.0,
                "val-core/x/acc/mean@1": 0.7}
        with open(directory / "metrics.jsonl", "a") as stream:
            stream.write(json.dumps({"step": step, "data": data}) + "\\n")
        if ending == "error" and step == 3:
            raise ValueError("the batch is broken")
        for _ in range(10):
            time.sleep(0.1)
            screen.update()

launching._train = train
directory.mkdir(exist_ok=True)
config = {"rpg.console": "progress", "rpg.stall_limit": None, "rpg.time_limit": None, "trainer.resume_mode": "auto",
          "trainer.total_training_steps": steps, "trainer.default_local_dir": str(directory)}
sys.exit(launching.train(run_config(config), None))
"""


@pytest.fixture
def terminal(tmp_path):
    """Return a function that starts a command in a terminal, in tmp_path; at the end no process of it may live."""
    started: list[Terminal] = []

    def start(*command: str, **environment: str) -> Terminal:
        env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", MARK: str(tmp_path), **environment}
        started.append(Terminal(list(command), tmp_path / f"terminal{len(started)}.txt", tmp_path, env))
        return started[-1]

    yield start
    until = time.monotonic() + 30
    while (left := with_environment(MARK, str(tmp_path))) and time.monotonic() < until:
        time.sleep(0.1)
    for process in left:
        process.kill()
    assert left == []


def driver(terminal, ending: str) -> Terminal:
    return terminal(sys.executable, "-c", DRIVER, "run", "1234", ending)


def test_ctrl_c_ends_a_run_which_then_goes_on_where_it_was(terminal, tmp_path):
    first = driver(terminal, "end")
    first.wait_for(" [2-9]/1234")
    first.press_ctrl_c()
    assert first.wait() == 130
    assert_in_order(first.text(), most=4)
    *_, end, remedy, _ = shown_lines(first.text())
    assert re.fullmatch("interrupted after step [2-9] of 1234", end)
    assert remedy == "there is no checkpoint yet: the same command begins again"
    (tmp_path / "run/latest_checkpointed_iteration.txt").write_text("2")
    again = driver(terminal, "end")
    again.wait_for("loads the checkpoint of step 2")
    again.wait_for("starting ━━━━━━━━ +2/1234")
    again.wait_for(" ([4-9]|1[0-9])/1234")
    os.kill(again.process.pid, signal.SIGTERM)
    for _ in range(20):  # as of an impatient supervisor
        os.kill(again.process.pid, signal.SIGTERM)
        time.sleep(0.02)
    assert again.wait() == 143
    assert re.search(r"terminated after step \d+ of 1234\r\n", again.text())
    assert_in_order(again.text(), most=5)


def test_the_stack_that_is_shown_is_the_trainers_which_arrives_last(tmp_path):
    log, dump = tmp_path / "run.log", "Stack (most recent call first):\n  of {}\n"
    earlier = "Timeout (0:02:00)!\n" + dump.format("an earlier start")
    log.write_text(earlier + "Fatal Python error: Aborted\n" + dump.format("a worker"))
    late = ["sh", "-c", 'sleep 1; cat >> "$0"', str(log)]
    with subprocess.Popen(late, stdin=subprocess.PIPE, text=True) as writer:
        writer.stdin.write("Timeout (0:02:00)!\n" + dump.format("a thread") + dump.format("the trainer"))
        writer.stdin.close()
        assert end_of(log, len(earlier), stack=True)[1:-1] == dump.format("the trainer").splitlines()


def test_a_failed_run_shows_the_end_of_its_log_and_what_to_do(terminal, tmp_path):
    run = driver(terminal, "error")
    assert run.wait() == 1
    lines = [line for line in shown_lines(run.text()) if line]
    assert len(lines) < 23
    assert "--- last lines of run/run.log ---" in lines
    assert run.text().count("Traceback") <= 1
    assert lines[-2] == "error: the run failed after step 3 of 1234: the batch is broken"
    assert lines[-1].startswith("after you fix the cause, ")
    assert run.text().rstrip().endswith("begins again")
    assert SHOW in run.text()
