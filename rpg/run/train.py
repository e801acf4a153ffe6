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
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TextIO

import psutil
from omegaconf import OmegaConf

from rpg.config.run_config import RunConfig
from rpg.files.atomic import METRICS
from rpg.files.integrity import steps, verify
from rpg.run import cleanup, signals
from rpg.run.directory import resumed_step
from rpg.run.monitor import INTERRUPT, Monitor
from rpg.run.processes import brief
from rpg.run.signals import DONE, FAILED

if TYPE_CHECKING:
    from rpg.verl_plugin.cpu.preload import Preloaded

PR_SET_CHILD_SUBREAPER = 36
SHOWN_LINES = 15  # of run.log after a failure; its reason stays in view on a terminal of 24 lines
STARTS = 3  # of a local Ray, whose node has 30 s to start, which a busy machine exceeds
GRACE = 5.0  # seconds from SIGTERM to SIGKILL


def train(run: RunConfig, server: "Preloaded | None") -> int:
    """Train with verl in the run's directory, which is held, and return the exit code (signals.py).

    server: the import server from which this machine's workers are forked, or None.
    """
    if not run.cluster:
        # orphans of Ray's workers (such as vLLM's engine when its server is killed) become children of
        # this process, so that they can be found at the end
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signals.raise_from_now()
    signal.signal(INTERRUPT, signal.default_int_handler)
    log = run.directory / "run.log" if run.settings.console == "progress" else None
    files = f"{'run.log, ' if log else ''}metrics.jsonl, checkpoints"
    print(f"{files}: {brief(run.directory)}", file=sys.stderr, flush=True)
    if step := resumed_step(run):
        total = f" of {run.settings.steps}" if run.settings.steps else ""
        print(f"resumes from step {step}{total}", file=sys.stderr, flush=True)
    with redirected(log) as terminal:
        return _monitored(run, server, terminal, log)


def _monitored(run: RunConfig, server: "Preloaded | None", terminal: TextIO, log: Path | None) -> int:
    monitor = Monitor(run, run.directory / METRICS, terminal, server.failure if server else lambda: None)
    actors: list[Any] = []
    ended = False
    try:
        try:
            _train(run, monitor, actors, server)
            ended = True
            return DONE
        finally:  # before anything is printed, and before a second signal
            signals.ignore_from_now()
            signal.signal(INTERRUPT, signal.SIG_IGN)
            monitor.stop()
            if monitor.left_out:
                print(monitor.left_out, file=terminal)
            if ended and not run.settings.val_only:
                print(f"done; next: rpg plot {brief(run.directory)}", file=terminal)
    except KeyboardInterrupt:
        if monitor.verdict is None:
            word = signals.WORDS[signals.ending()]
            print(f"{word} after {monitor.progress}", next_start(run), sep="\n", file=terminal)
            return signals.ENDS[signals.ending()]
        _show_end(log, terminal)
        print(f"error: {monitor.verdict.reason}", next_start(run), sep="\n", file=terminal)
        return monitor.verdict.code
    except Exception as error:  # noqa: BLE001  # whatever ended the run, its processes end and the reason is shown
        traceback.print_exc()
        _show_end(log, terminal)
        if server and (failure := server.failure()):
            print(f"error: {failure}", file=terminal)
        message = (str(error).strip() or type(error).__name__).splitlines()[-1].strip()
        print(f"error: the run failed after {monitor.progress}: {message}", file=terminal)
        print(f"after you fix the cause, {next_start(run)}", file=terminal)
        return FAILED
    finally:
        _clean_up(run, actors)


def _train(run: RunConfig, monitor: Monitor, actors: list[Any], server: "Preloaded | None") -> None:
    """Call verl's run_ppo, again if Ray did not start.

    actors: gets the handle of the task runner. run_ppo drops its own when it returns. Ray would then kill the actor and
    its children, such as vLLM's servers, whose shared memory could no longer be distinguished from another run's.
    """
    import ray
    from verl.trainer.main_ppo import run_ppo
    from verl.utils.device import auto_set_device

    from rpg.verl_plugin.task_runner import RPGTaskRunner

    def remote(**options: Any) -> Any:  # verl has Ray's options for the actor under nsys
        signals.raise_from_now()  # ray.init, just before, set another handler of SIGTERM
        actors.append(RPGTaskRunner.options(**options).remote())
        return actors[0]

    runner = SimpleNamespace(
        remote=remote, options=lambda **options: SimpleNamespace(remote=partial(remote, **options))
    )
    config = OmegaConf.create(run.copy())  # verl writes into its configuration
    auto_set_device(config)
    monitor.start()
    if server:
        runtime_env = config.ray_kwargs.ray_init.runtime_env
        runtime_env.env_vars["RPG_PRELOADED_PYTHON"] = str(server.executable)
        runtime_env.py_executable = shlex.quote(str(server.executable))  # Ray puts it into a shell command
        server.wait_for_early()  # avoid load while Ray's node starts
    for attempt in range(1, STARTS + 1):
        try:
            run_ppo(config, task_runner_class=runner)
            break
        except (TypeError, ValueError):  # an argument of ray.init, which another attempt would not change
            raise
        except Exception as error:
            if run.cluster or actors or ray.is_initialized() or attempt == STARTS:
                raise
            print(f"Ray did not start in attempt {attempt} of {STARTS}: {error}", flush=True)
            end_descendants(server)


def _clean_up(run: RunConfig, actors: list[Any]) -> None:
    """End Ray and all processes of this run, and remove their files in shared memory."""
    import ray

    children = [] if run.cluster else psutil.Process().children(recursive=True)
    shared = cleanup.mapped(child.pid for child in children)
    actors.clear()
    ray.shutdown()
    signals.ignore_from_now()  # again: Ray's end sets SIGTERM to its default
    if not run.cluster:
        end_descendants()
        cleanup.unlink(shared)
        cleanup.remove()  # files of earlier starts that were too young when this one began


def next_start(run: RunConfig) -> str:
    """Say where the same command begins after this run has ended."""
    if run.settings.resume_mode == "disable":
        return "the same command begins again (trainer.resume_mode=disable)"
    if not run.resumes_by_choice:
        return f"the same command resumes from {run.settings.resume_path}"
    for step, directory in steps(run.directory):
        if verify(directory, contents=False).complete:  # reading the contents takes minutes for a large model
            return f"the same command resumes from the checkpoint of step {step}"
    return "there is no checkpoint yet: the same command begins again"


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


def end_descendants(kept: "Preloaded | None" = None) -> None:
    """End all living processes that this run started but the kept one: SIGTERM, then SIGKILL after GRACE."""
    remaining = [child for child in psutil.Process().children(recursive=True) if not kept or child.pid != kept.pid]
    for end in (psutil.Process.terminate, psutil.Process.kill):
        for process in remaining:
            with contextlib.suppress(psutil.NoSuchProcess):
                end(process)
        _, remaining = psutil.wait_procs(remaining, timeout=GRACE)
