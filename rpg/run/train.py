"""Run verl's trainer, show its progress, and clean up afterwards: processes and terminal."""

import contextlib
import ctypes
import io
import os
import shlex
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import psutil
from omegaconf import OmegaConf

from rpg.config.run_config import RunConfig
from rpg.files.integrity import steps, verify
from rpg.run import cleanup, signals
from rpg.run.directory import resumed_step
from rpg.run.processes import brief
from rpg.run.progress import LOOK_EVERY, Screen
from rpg.run.signals import DONE, FAILED

if TYPE_CHECKING:
    from rpg.verl_plugin.cpu.preload import Preloaded

PR_SET_CHILD_SUBREAPER = 36
SHOWN_LINES = 15  # of run.log after a failure; its reason stays in view on a terminal of 24 lines
STARTS = 3  # of a local Ray, whose node has 30 s to start, which a busy machine exceeds
GRACE = 5.0  # seconds from SIGTERM to SIGKILL
NEARLY = 0.9  # share of a limit after which a death is put down to it: driver and task runner measure by themselves


def train(run: RunConfig, server: "Preloaded | None") -> int:
    """Train with verl in the run's directory, which is held, and return the exit code (signals.py).

    server: the import server from which this machine's workers are forked, or None.
    """
    if not run.cluster:
        # orphans of Ray's workers (such as vLLM's engine when its server is killed) become children of
        # this process, so that they can be found at the end
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    signals.raise_from_now()
    log = run.directory / "run.log" if run["rpg.console"] == "progress" else None
    files = f"{'run.log, ' if log else ''}metrics.jsonl, checkpoints"
    print(f"{files}: {brief(run.directory)}", file=sys.stderr, flush=True)
    if step := resumed_step(run):
        total = f" of {run['trainer.total_training_steps']}" if run["trainer.total_training_steps"] else ""
        only = run["trainer.val_only"]
        what = f"validates the checkpoint of step {step}" if only else f"resumes from step {step}{total}"
        print(what, file=sys.stderr, flush=True)
    with redirected(log) as terminal:
        return _shown(run, server, terminal, log)


def _shown(run: RunConfig, server: "Preloaded | None", terminal: TextIO, log: Path | None) -> int:
    screen = Screen(run, terminal)
    ended = False
    try:
        try:
            _train(run, screen, server)
            ended = True
            return DONE
        finally:  # before anything is printed, and before a second signal
            signals.ignore_from_now()
            screen.close()
            if ended and not run["trainer.val_only"]:
                print(f"done; next: rpg plot {brief(run.directory)}", file=terminal)
    except KeyboardInterrupt:
        word = signals.WORDS[signals.ending()]
        print(f"{word} after {screen.progress}", next_start(run), sep="\n", file=terminal)
        return signals.ENDS[signals.ending()]
    except Exception as error:  # noqa: BLE001  # whatever ended the run, its processes end and the reason is shown
        traceback.print_exc()
        _show_end(log, terminal)
        message = limit(run, screen, error) or str(error).strip() or type(error).__name__
        last = message.splitlines()[-1].strip()
        print(f"error: the run failed after {screen.progress}: {last}", file=terminal)
        print(f"after you fix the cause, {next_start(run)}", file=terminal)
        return FAILED
    finally:
        _clean_up(run)


def limit(run: RunConfig, screen: Screen, error: Exception) -> str | None:
    """Return the limit at which the task runner has ended itself (watchdog.py), None if it died of something else."""
    from ray.exceptions import ActorDiedError

    now = time.monotonic()
    for key, passed, what in (
        ("rpg.time_limit", now - screen.began, "took longer"),
        ("rpg.stall_limit", now - screen.advanced, "made no step for longer"),
    ):
        if isinstance(error, ActorDiedError) and run[key] is not None and passed > NEARLY * run[key]:
            where = "run.log" if run["rpg.console"] == "progress" else "the output above"
            return f"it {what} than {run.shown(key)} s; the stacks of its threads are in {where}"
    return None


def _train(run: RunConfig, screen: Screen, server: "Preloaded | None") -> None:
    """Train as verl's run_ppo does, with our task runner, and show the progress meanwhile."""
    import ray
    from verl.utils.device import auto_set_device

    from rpg.verl_plugin.task_runner import RPGTaskRunner

    config = OmegaConf.create(run.copy())  # verl writes into its configuration
    auto_set_device(config)
    if server:
        runtime_env = config.ray_kwargs.ray_init.runtime_env
        runtime_env.env_vars["RPG_PRELOADED_PYTHON"] = str(server.executable)
        runtime_env.py_executable = shlex.quote(str(server.executable))  # Ray puts it into a shell command
        server.wait_for_early()  # avoid load while Ray's node starts
    _start_ray(run, config, server)
    signals.raise_from_now()  # ray.init set another handler of SIGTERM
    runner = RPGTaskRunner.remote()
    ended = runner.run.remote(config)
    while not ray.wait([ended], timeout=LOOK_EVERY)[0]:
        screen.update()
        if server and (failure := server.failure()):
            raise RuntimeError(failure)
    ray.get(ended)
    if file := config.ray_kwargs.get("timeline_json_file"):
        ray.timeline(filename=file)


def _start_ray(run: RunConfig, config: Any, server: "Preloaded | None") -> None:
    """Start Ray or connect to it with the environment of verl's run_ppo; again if a local one did not start."""
    import ray
    from verl.trainer.constants_ppo import get_ppo_ray_runtime_env

    if config.actor_rollout_ref.rollout.full_determinism:  # before the environment of the workers is made
        seed = str(config.actor_rollout_ref.rollout.seed)
        os.environ.update(VERL_FULL_DETERMINISM="1", VLLM_BATCH_INVARIANT="1", PYTHONHASHSEED=seed)
    if "rl_insight" in config.trainer.logger:
        os.environ["VERL_RL_INSIGHT_ENABLE"] = "1"
    ours = config.ray_kwargs.ray_init.get("runtime_env", {})
    environment = OmegaConf.merge(get_ppo_ray_runtime_env(config), {"env_vars": {"TRANSFER_QUEUE_ENABLE": "1"}}, ours)
    settings = OmegaConf.to_container(OmegaConf.create({**config.ray_kwargs.ray_init, "runtime_env": environment}))
    print(f"ray.init: {settings}", flush=True)
    for attempt in range(1, STARTS + 1):
        try:
            ray.init(**settings)  # type: ignore[arg-type]
            return
        except (TypeError, ValueError):  # an argument of ray.init, which another attempt would not change
            raise
        except Exception as error:
            if run.cluster or ray.is_initialized() or attempt == STARTS:
                raise
            print(f"Ray did not start in attempt {attempt} of {STARTS}: {error}", flush=True)
            end_descendants(server)


def _clean_up(run: RunConfig) -> None:
    """End Ray and all processes of this run, and remove their files in shared memory."""
    import ray

    signal.pthread_sigmask(signal.SIG_BLOCK, signals.ENDS)  # Ray's end sets SIGTERM to its default
    ray.shutdown()
    signals.ignore_from_now()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals.ENDS)
    if not run.cluster:
        end_descendants()
        cleanup.remove()


def next_start(run: RunConfig) -> str:
    """Say where the same command begins after this run has ended."""
    if run["trainer.resume_mode"] == "resume_path" and not run.resumes_by_choice:
        return f"the same command resumes from {run['trainer.resume_from_path']}"
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
