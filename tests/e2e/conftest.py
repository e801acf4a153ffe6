"""What the end-to-end tests share: toy model and data, runs of the launch script, and a look for what they leave."""

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

from rpg.launching import cleanup

ROOT = Path(__file__).resolve().parents[2]
TOY = ROOT / "runs" / "toy"
SCRIPT = ROOT / "recipe/rpg/cpu/run_rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28.sh"
# Seconds for what takes 50 to 100 on two free cores. Passed only by what hangs: the start alone took 190 s with twenty
# busy processes beside it.
PATIENCE = 900
MARK = "RPG_TEST_RUN"  # an environment variable that every process of a run inherits


@pytest.fixture(scope="session", autouse=True)
def toy() -> Path:
    """Directory with the toy model and data, built as `rpg demo` builds them where they are missing."""
    command = [sys.executable, "-m", "rpg.cli", "demo", "--prepare-only", "--dir", str(TOY)]
    subprocess.run(command, cwd=ROOT, check=True, timeout=2 * PATIENCE)
    return TOY


def left_over() -> set[str]:
    """Files in shared memory such as runs leave there, and which no living process has."""
    cleanup.remove()  # as the next start does
    used = cleanup.mapped(psutil.pids())
    files = [path for name in (cleanup.WEIGHTS, cleanup.SEMAPHORES) for path in cleanup.SHARED.glob(f"{name}*")]
    return {path.name for path in files if path.exists() and path.stat().st_ino not in used}


def assert_nothing_left(before: set[str]) -> None:
    """Nothing that the next start would not remove; it leaves what dead runs made in the last minute."""
    until = time.monotonic() + cleanup.GRACE
    while left_over() - before and time.monotonic() < until:
        time.sleep(1)
    assert left_over() - before == set()


class Run:
    """A started command in a process group of its own, with everything it prints in a file."""

    def __init__(self, command: list[str], directory: Path, *, background: bool = False, **environment: str):
        """background: as a script starts a job with &, which then ignores SIGINT; otherwise as a terminal does."""
        self.mark = uuid.uuid4().hex
        self.directory = directory
        directory.mkdir(parents=True, exist_ok=True)
        self.output = directory / "terminal.txt"
        with open(self.output, "wb") as stream:
            self.process = subprocess.Popen(
                command,
                cwd=ROOT,
                stdin=subprocess.DEVNULL,
                stdout=stream,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN if background else signal.SIG_DFL),
                env={**os.environ, **environment, MARK: self.mark},
            )

    def wait(self, timeout: float = PATIENCE) -> int:
        """Exit code; a run that takes longer is ended and fails the test."""
        try:
            return self.process.wait(timeout)
        except subprocess.TimeoutExpired:
            self.end()
            pytest.fail(f"the run took more than {timeout} s:\n{self.text()[-3000:]}")

    def text(self) -> str:
        """What the run printed so far."""
        return self.output.read_text(errors="replace")

    def metrics(self) -> list[dict]:
        """The records of metrics.jsonl so far, complete lines only."""
        path = self.directory / "metrics.jsonl"
        if not path.is_file():
            return []
        return [json.loads(line) for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]

    def wait_for_step(self, step: int, timeout: float = PATIENCE) -> None:
        """Return when metrics of this step are there."""
        until = time.monotonic() + timeout
        while not any(record["step"] >= step for record in self.metrics()):
            assert self.process.poll() is None, f"the run ended before step {step}:\n{self.text()[-3000:]}"
            assert time.monotonic() < until, f"no step {step} after {timeout} s:\n{self.text()[-3000:]}"
            time.sleep(0.5)

    def processes(self) -> list[psutil.Process]:
        """Living processes that carry this run's mark in their environment."""
        found = []
        for process in psutil.process_iter():
            try:
                if process.environ().get(MARK) == self.mark and process.status() != psutil.STATUS_ZOMBIE:
                    found.append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def survivors(self, patience: float = 120) -> list[str]:
        """Command lines of this run's processes that still live so many seconds after the driver ended."""
        until = time.monotonic() + patience
        while self.processes() and time.monotonic() < until:
            time.sleep(0.5)
        return [" ".join(process.cmdline()) for process in self.processes()]

    def listeners(self) -> list[tuple[str, str]]:
        """(process, address) of every socket on which a process of this run takes connections from a network."""
        found = []
        for process in self.processes():
            try:
                sockets = process.net_connections("inet")
                found += [(process.cmdline()[0], one.laddr.ip) for one in sockets if one.status == psutil.CONN_LISTEN]
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def ray_logs(self) -> list[Path]:
        """Where the Ray of this run writes its logs; while it lives."""
        named = {text for process in self.processes() for text in process.cmdline() if text.startswith("--log_dir=")}
        return [Path(text.removeprefix("--log_dir=")) for text in sorted(named)]

    def interrupt(self) -> None:
        """What Ctrl-C in a terminal does: SIGINT to the foreground process group."""
        os.killpg(self.process.pid, signal.SIGINT)

    def end(self) -> None:
        """Kill whatever is left."""
        for process in self.processes():
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue


@pytest.fixture
def start(tmp_path: Path) -> Iterator:
    """Start commands; what is left of them at the end of the test is killed.

    Called with Hydra overrides it starts the launch script; a whole command is given as `command=`. Run.directory is
    where the script's run goes. background: see Run.
    """
    runs: list[Run] = []

    def starter(*overrides: str, command: list[str] | None = None, background: bool = False, **environment: str) -> Run:
        directory = tmp_path / f"run{len(runs)}"
        script = ["bash", str(SCRIPT), f"trainer.default_local_dir={directory}", *overrides]
        run = Run(command or script, directory, background=background, **environment)
        runs.append(run)
        return run

    yield starter
    for run in runs:
        run.end()
