"""A launch script, from Python: run it, or ask which configuration it would run."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import yaml


def call(command: list[str]) -> int:
    """Run a launch script; its exit code, as a shell gives it.

    Ctrl-C reaches the script as well, which has its processes to end; subprocess.run would kill it meanwhile.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.SIG_IGN:  # that, as in a script's background, the command has to inherit
        signal.signal(signal.SIGINT, lambda number, frame: None)
    try:
        code = subprocess.run(command, check=False).returncode
    finally:
        signal.signal(signal.SIGINT, before)
    return code if code >= 0 else 128 - code


def resolved(script: Path, overrides: list[str]) -> dict[str, Any]:
    """The configuration that a launch script would run, from its own dry run.

    Raises:
        ValueError: no such script, or the script refuses; the message is the script's.
    """
    if not script.is_file():
        raise ValueError(f"{script}: no such file")
    environment = {**os.environ, "DRY_RUN": "1", "PYTHON": os.environ.get("PYTHON", sys.executable)}
    done = subprocess.run(
        ["bash", str(script), *overrides], capture_output=True, text=True, env=environment, check=False
    )
    if done.returncode:
        raise ValueError(f"{script}: {done.stderr.strip() or f'exit code {done.returncode}'}")
    config = yaml.safe_load(done.stdout)
    if not isinstance(config, dict) or "actor_rollout_ref" not in config:
        raise ValueError(f"{script}: DRY_RUN=1 printed no configuration of verl; is it a launch script?")
    return config
