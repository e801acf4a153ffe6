"""Faults during a run: a clear message, the right exit code, and no process left behind."""

import os
import re
import signal
import time

import pytest

from tests.e2e.conftest import PATIENCE
from tests.terminal import assert_in_order

pytestmark = [pytest.mark.e2e, pytest.mark.full]

BRIEF = [
    "trainer.test_freq=-1",
    "trainer.val_before_train=false",
    "trainer.save_freq=-1",
    "trainer.total_training_steps=1000",
]


def test_a_dead_vllm_engine_ends_the_run(start):
    """SIGKILL to vLLM's engine: its server ends, and the run with Ray's error as soon as it wants the server.

    The engine is idle: the actor is stopped until the server has ended. Also for a run that a script started in the
    background, which ignores SIGINT.
    """
    run = start(*BRIEF, background=True)
    run.wait_for_step(1)
    actors, [server] = run.named("ray::WorkerDict"), run.named("ray::vLLMHttpServer")
    for actor in actors:
        os.kill(actor.pid, signal.SIGSTOP)
    # the engine is what vLLM's server starts by multiprocessing's spawn; rpg.preload kills it with its stand-in
    engines = [p for p in run.processes() if "spawn_main" in " ".join(p.cmdline())]
    assert engines, "no vLLM engine among the run's processes"
    used, before = 0.0, -1.0
    while used - before > 0.1:  # seconds of a core in three
        before, used = used, sum(sum(engine.cpu_times()[:2]) for engine in engines)
        time.sleep(3)
    for engine in engines:
        os.kill(engine.pid, signal.SIGKILL)
    server.wait(60)
    for actor in actors:
        os.kill(actor.pid, signal.SIGCONT)
    assert run.wait(300) == 1, run.text()[-2000:]  # before rpg.stall_limit=600
    assert "EngineDeadError" in (run.directory / "run.log").read_text(errors="replace")
    assert run.processes() == []
    assert run.metrics()[0]["step"] == 1  # what was written stays


def test_a_worker_for_which_the_trainer_waits_ends_the_run_at_the_stall_limit(start):
    """Ray loses TransferQueue's storage, for which the trainer would wait forever: its stack is on the screen."""
    run = start(*BRIEF, "rpg.stall_limit=120")  # the start takes 50 s on two free cores
    run.wait_for_step(1)
    [storage] = run.named("ray::SimpleStorageUnit")
    os.kill(storage.pid, signal.SIGABRT)
    assert run.wait() == 1, run.text()[-2000:]
    assert "rpg.stall_limit=120" in run.text().splitlines()[-2]
    assert re.search(r"File .*trainer_base.py.* in (fit|step|_step_once)", run.text())
    assert f"Worker PID: {storage.pid} " in (run.directory / "run.log").read_text(errors="replace")
    assert run.processes() == []
    assert "import server" not in run.text()  # the signals that Ray sends afterwards are for that worker alone


def test_ctrl_c_and_a_closed_window(start):
    """In a terminal: exit code 130 or 129, no Ray or vLLM process left, metrics kept; the same command resumes."""
    run = start(*BRIEF, "trainer.save_freq=1", in_terminal=True)
    run.wait_for_step(2)
    run.interrupt()
    run.terminal.wait_for("interrupted after step")
    run.process.terminate()  # while it ends
    assert run.terminal.wait(PATIENCE) == 130, run.text()[-2000:]
    assert run.processes() == []
    assert_in_order(run.text().replace(str(run.directory), "run"), most=4)
    assert "the same command resumes from global_step_" in run.text()
    assert run.metrics()[0]["step"] == 1

    again = start(*BRIEF, f"trainer.default_local_dir={run.directory}", in_terminal=True)
    again.directory = run.directory
    again.terminal.wait_for("starting ━━━━━━━━ +[12]/1000", PATIENCE)
    again.wait_for_step(4)
    again.terminal.close_window()
    assert again.wait() == 129
    assert again.processes() == []
