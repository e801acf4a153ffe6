"""Fixtures of the end-to-end tests: toy model and data, runs of the launch script, and checks for left-over files."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from filelock import FileLock

from tests.terminal import Terminal, with_environment

ROOT = Path(__file__).resolve().parents[2]
TOY = ROOT / "runs" / "toy"
SCRIPT = ROOT / "recipe/rpg/cpu/run_rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28.sh"
# Seconds for runs that take 50 to 100 s on two free cores; the start took 190 s beside twenty busy processes.
PATIENCE = 900
MARK = "RPG_TEST_RUN"  # an environment variable that every process of a run inherits


@pytest.fixture(scope="session", autouse=True)
def toy() -> Path:
    """Return the directory with toy model and data, made as by `rpg demo` if missing."""
    command = [sys.executable, "-m", "rpg.cli", "demo", "--model", "toy", "--prepare-only", "--dir", str(TOY)]
    TOY.parent.mkdir(exist_ok=True)
    with FileLock(f"{TOY}.lock"):  # of other test processes
        subprocess.run(command, cwd=ROOT, check=True, timeout=PATIENCE)
    return TOY


class Run:
    """A started command in its own process group, with its output in a file."""

    terminal: Terminal | None = None

    def __init__(
        self, command: list[str], directory: Path, *, background: bool = False, in_terminal: bool = False,
        **environment: str,
    ):  # fmt: skip
        """background: start as with & in a script, which ignores SIGINT. in_terminal: in a terminal of its own."""
        self.mark = uuid.uuid4().hex
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.output = directory / "terminal.txt"
        # PYTHON: a launch script would take the checkout's .venv, whatever the tests run in
        environment = {**os.environ, "PYTHON": sys.executable, **environment, MARK: self.mark}
        if in_terminal:
            self.terminal = Terminal(command, self.output, ROOT, environment)
            self.process = self.terminal.process
            return
        with open(self.output, "wb") as stream:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN if background else signal.SIG_DFL),
                env=environment,
            )

    def wait(self, timeout: float = PATIENCE) -> int:
        """Return the exit code; a run that takes too long is killed and fails the test."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.end()
            pytest.fail(f"the run took more than {timeout} s:\n{self.text()[-3000:]}")

    def text(self) -> str:
        """Return the run's output so far."""
        return self.output.read_bytes().decode(errors="replace")  # with its carriage returns

    def metrics(self) -> list[dict]:
        """Return the complete records of metrics.jsonl so far."""
        path = self.directory / "metrics.jsonl"
        if not path.is_file():
            return []
        return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def wait_for_step(self, step: int, timeout: float = PATIENCE) -> None:
        """Wait until the metrics of this step are logged."""
        until = time.monotonic() + timeout
        while not any(record["step"] >= step for record in self.metrics()):
            assert self.process.poll() is None, f"the run ended before step {step}:\n{self.text()[-3000:]}"
            assert time.monotonic() < until, f"no step {step} after {timeout} s:\n{self.text()[-3000:]}"
            time.sleep(0.5)

    def processes(self) -> list[psutil.Process]:
        """Return living processes with this run's mark in their environment."""
        return with_environment(MARK, self.mark)

    def named(self, beginning: str) -> list[psutil.Process]:
        """Return the living processes whose program or title begins so."""
        found = []
        for process in self.processes():
            with contextlib.suppress(psutil.NoSuchProcess, IndexError):  # ended meanwhile
                program = process.cmdline()[0]
                if program.startswith(beginning) or Path(program).name == beginning:
                    found.append(process)
        return found

    def survivors(self, patience: float = 120) -> list[str]:
        """Return command lines of this run's processes that live `seconds` after the driver's end."""
        until = time.monotonic() + patience
        while self.processes() and time.monotonic() < until:
            time.sleep(0.5)
        return [" ".join(process.cmdline()) for process in self.processes()]

    def listeners(self) -> list[tuple[str, str]]:
        """Return (process, address) of every socket on which this run listens to a network."""
        found = []
        for process in self.processes():
            try:
                sockets = process.net_connections("inet")
                found += [(process.cmdline()[0], one.laddr.ip) for one in sockets if one.status == psutil.CONN_LISTEN]
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def ray_logs(self) -> list[Path]:
        """Return the log directory of this run's Ray while it lives."""
        named = {text for process in self.processes() for text in process.cmdline() if text.startswith("--log_dir=")}
        return [Path(text.removeprefix("--log_dir=")) for text in sorted(named)]

    def interrupt(self) -> None:
        """Send SIGINT to the foreground process group, like Ctrl-C in a terminal."""
        if self.terminal:
            self.terminal.press_ctrl_c()
            return
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self) -> None:
        """Kill all remaining processes."""
        for process in self.processes():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue


@pytest.fixture
def start(tmp_path: Path) -> Iterator:
    """Return a function that starts commands, whose processes are killed at the end of the test.

    It starts the launch script with Hydra overrides, or the command `command=`. Run.directory is the run's directory.
    background, in_terminal: see Run.
    """
    runs: list[Run] = []

    def starter(
        *overrides: str, command: list[str] | None = None, background: bool = False, in_terminal: bool = False,
        **environment: str,
    ) -> Run:  # fmt: skip
        directory = tmp_path / f"run{len(runs)}"
        script = ["bash", str(SCRIPT), f"trainer.default_local_dir={directory}", *overrides]
        run = Run(command or script, directory, background=background, in_terminal=in_terminal, **environment)
        runs.append(run)
        return run

    yield starter
    for run in runs:
        run.end()
