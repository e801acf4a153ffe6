"""Child commands: forwarded signals, and their end with this process."""

import os
import signal
import subprocess
import sys
import time

import psutil

from rpg.run.processes import Children

COMMAND = ["bash", "-c", "trap 'echo interrupted; exit 9' INT; echo up; while :; do sleep 0.05; done"]
PARENT = """
import sys, time
from pathlib import Path
from rpg.run.processes import Children
print(Children().start(["sleep", "600"], Path(sys.argv[1])).pid, flush=True)
time.sleep(600)
"""


def test_a_signal_goes_to_every_command_and_is_kept(tmp_path):
    children, logs = Children(), [tmp_path / "a", tmp_path / "b"]
    before = signal.getsignal(signal.SIGINT)
    with children.forwarding():
        processes = [children.start(COMMAND, log) for log in logs]
        until = time.monotonic() + 60
        while not all(log.read_text() for log in logs):
            assert time.monotonic() < until
            time.sleep(0.02)
        assert children.stopped is None
        os.kill(os.getpid(), signal.SIGINT)
        assert [process.wait(60) for process in processes] == [9, 9]
    assert children.stopped is signal.SIGINT
    assert [log.read_text() for log in logs] == ["up\ninterrupted\n"] * 2
    assert signal.getsignal(signal.SIGINT) is before


def test_a_command_ends_when_its_parent_is_killed(tmp_path):
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True)
    child = psutil.Process(int(parent.stdout.readline()))
    parent.kill()
    parent.wait()
    gone, _ = psutil.wait_procs([child], timeout=30)
    assert gone or child.status() == psutil.STATUS_ZOMBIE  # its new parent has not waited for it yet
