"""Where Ray's node was late, a fresh process tries again: three starts, then a failure."""

import os
import sys

from rpg.launching import start


def test_a_late_ray_is_started_again_in_a_fresh_process(monkeypatch, capsys):
    started = []
    monkeypatch.setattr(os, "execv", lambda program, arguments: started.append((program, arguments)))
    monkeypatch.setenv(start.STARTED, "0")
    late = RuntimeError("The current node timed out during startup")
    codes = [start.start_again(["profile=cpu"], late) for _ in range(start.STARTS)]
    again = (sys.executable, [sys.executable, "-m", "rpg.launching", "profile=cpu"])
    assert started == [again] * 2
    assert codes[-1] == 1
    said = capsys.readouterr().err.splitlines()
    assert "start 2 of 3" in said[0]
    assert said[-1].startswith("error: Ray did not start, 3 times: The current node")
