"""Run verl's trainer under a monitor and clean up afterwards: processes and terminal."""

import contextlib
import ctypes
import io
import os
import shlex
import signal
import sys
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import psutil
from omegaconf import OmegaConf

from rpg.checks.check import Run
from rpg.files.integrity import steps, verify
from rpg.launching import RayWasLate, cleanup, signals
from rpg.launching.monitor import INTERRUPT, Monitor
from rpg.launching.rundir import prepare
from rpg.launching.signals import DONE, FAILED, INTERRUPTED

if TYPE_CHECKING:
    from rpg.verl_plugin.cpu.preload import Preloaded

PR_SET_CHILD_SUBREAPER = 36
SHOWN_LINES = 15  # of run.log after a failure; its reason stays in view on a terminal of 24 lines
# Ray waits 30 s for its node (a constant) and then raises a generic exception with this message
RAY_WAS_LATE = "The current node timed out during startup"


def train(run: Run, preloaded: "Preloaded | None", changed: dict[str, tuple[Any, Any]]) -> int:
    """Train with verl and return the exit code (signals.py).

    preloaded: the import server from which this machine's workers are forked, or None. changed: settings that differ
    from those of the resumed run (rpg/checks/fingerprint.py). Raises RayWasLate.
    """
    if not run.cluster:
        # orphans of Ray's workers (such as vLLM's engine when its server is killed) become children of
        # this process, so that they can be found at the end
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    before = {number: signal.getsignal(number) for number in (*signals.ENDS, INTERRUPT)}
    signals.raise_from_now()
    signal.signal(INTERRUPT, signal.default_int_handler)
    try:
        run_dir = prepare(run, changed)
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}; the run was not started", file=sys.stderr)
        return FAILED
    log = run_dir / "run.log" if run.get("rpg.console") == "progress" else None
    if log:
        print(f"run.log, metrics and checkpoints: {brief(run_dir)}", file=sys.stderr, flush=True)
    with redirected(log) as terminal:
        try:
            return _monitored(run, run_dir, preloaded, terminal, log)
        except RayWasLate:  # the next start wants its signals
            for number, handler in before.items():
                signal.signal(number, handler)
            raise


def _monitored(run: Run, run_dir: Path, preloaded: "Preloaded | None", terminal: TextIO, log: Path | None) -> int:
    monitor = Monitor(run, run_dir / "metrics.jsonl", terminal, preloaded.failure if preloaded else lambda: None)
    runner = HeldRunner()
    try:
        try:
            return _train(run, monitor, runner, preloaded)
        finally:  # before anything is printed, and before a second signal
            signals.ignore_from_now()
            signal.signal(INTERRUPT, signal.SIG_IGN)
            monitor.stop()
    except KeyboardInterrupt:
        if monitor.verdict is None:
            print(f"interrupted after {monitor.progress}; {next_start(run, run_dir)}", file=terminal)
            return INTERRUPTED
        _show_end(log, terminal)
        print(f"error: {monitor.verdict.reason}; {next_start(run, run_dir)}", file=terminal)
        return monitor.verdict.code
    except signals.Stopped as stop:
        print(f"{stop.word} after {monitor.progress}; {next_start(run, run_dir)}", file=terminal)
        return int(stop.code)
    except Exception as error:
        if not run.cluster and RAY_WAS_LATE in str(error):
            raise RayWasLate(str(error)) from error
        traceback.print_exc()
        _show_end(log, terminal)
        for lost in monitor.lost():
            print(f"error: {lost}", file=terminal)
        message = (str(error).strip() or type(error).__name__).splitlines()[-1].strip()
        print(f"error: the run failed after {monitor.progress}: {message}", file=terminal)
        print(f"once the cause is mended, {next_start(run, run_dir)}", file=terminal)
        return FAILED
    finally:
        monitor.close()
        import ray

        children = [] if run.cluster else psutil.Process().children(recursive=True)
        shared = cleanup.mapped(child.pid for child in children)
        runner.handle = None
        ray.shutdown()
        if not run.cluster:
            end_descendants()
            cleanup.unlink(shared)
            cleanup.remove()  # files of earlier starts that were too young when this one began


class HeldRunner:
    """The task runner's class for verl's run_ppo, and its actor, kept alive by the handle.

    run_ppo would drop the handle when it returns. Ray would then kill the actor and its children, such as vLLM's
    servers, whose shared memory could no longer be distinguished from another run's.
    """

    def __init__(self) -> None:
        self.handle: Any = None
        self._options: dict[str, Any] = {}

    def options(self, **options: Any) -> "HeldRunner":
        """Set Ray's options for the actor; verl has some under nsys."""
        self._options = options
        return self

    def remote(self) -> Any:
        """Start the actor and return its handle."""
        from rpg.verl_plugin.task_runner import RPGTaskRunner

        self.handle = RPGTaskRunner.options(**self._options).remote()
        return self.handle


def _train(run: Run, monitor: Monitor, runner: HeldRunner, preloaded: "Preloaded | None") -> int:
    from verl.trainer.main_ppo import run_ppo
    from verl.utils.device import auto_set_device

    config = OmegaConf.create(run.copy())  # verl writes into its configuration
    auto_set_device(config)
    monitor.start()
    if preloaded:
        runtime_env = config.ray_kwargs.ray_init.runtime_env
        runtime_env.env_vars["RPG_PRELOADED_PYTHON"] = str(preloaded.executable)
        runtime_env.py_executable = shlex.quote(str(preloaded.executable))  # Ray puts it into a shell command
        preloaded.wait_for_early()  # avoid load while Ray's node starts
    run_ppo(config, task_runner_class=runner)
    monitor.finish()
    return DONE


def next_start(run: Run, run_dir: Path) -> str:
    """Say where the same command begins after this run has ended."""
    if run.get("trainer.resume_mode") == "disable":
        return "the same command begins again (trainer.resume_mode=disable)"
    if not run.resumes_by_choice:
        return f"the same command resumes from {run.get('trainer.resume_from_path')}"
    for step, directory in steps(run_dir):
        if verify(directory, contents=False).complete:  # reading the contents takes minutes for a large model
            return f"the same command resumes from the checkpoint of step {step}"
    return "there is no checkpoint yet: the same command begins again"


def brief(path: Path) -> Path:
    """Return a path below the working directory as a relative one."""
    return path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path


def _show_end(log: Path | None, terminal: TextIO) -> None:
    """Show the last lines of a log file on the terminal."""
    if log is not None:
        lines = [line for line in log.read_text(errors="replace").splitlines() if line.strip()]
        print(f"--- last lines of {brief(log)} ---", *lines[-SHOWN_LINES:], "---", sep="\n", file=terminal)


class Terminal(io.FileIO):
    """The terminal. Text for a window that was closed (EIO) is dropped: neither run nor cleanup may fail for it."""

    def write(self, data: Any) -> int:  # bytes-like
        """Write and return the number of bytes."""
        try:
            return super().write(data)
        except OSError:
            return len(data)


@contextlib.contextmanager
def redirected(log: Path | None) -> Iterator[TextIO]:
    """Append this process's stdout and stderr, Ray's forwarded lines included, to log.

    Yields the terminal's stream, the original stderr. With log None nothing is redirected.
    """
    saved_out, saved_err = os.dup(1), os.dup(2)
    stream = io.BufferedWriter(Terminal(saved_err, "w"))
    terminal = io.TextIOWrapper(stream, sys.stderr.encoding, "backslashreplace", line_buffering=True)
    if log is None:
        os.close(saved_out)
        with terminal:
            yield terminal
        return
    with open(log, "ab", buffering=0) as target, terminal:
        os.dup2(target.fileno(), 1)
        os.dup2(target.fileno(), 2)
        try:
            yield terminal
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os.dup2(saved_out, 1)
            os.dup2(saved_err, 2)
            os.close(saved_out)


def end_descendants(grace: float = 5.0) -> None:
    """End all living processes that this run started: SIGTERM, then SIGKILL after `grace` seconds."""
    remaining = psutil.Process().children(recursive=True)
    for end in (psutil.Process.terminate, psutil.Process.kill):
        for process in remaining:
            with contextlib.suppress(psutil.NoSuchProcess):
                end(process)
        _, remaining = psutil.wait_procs(remaining, timeout=grace)
