"""Run verl's trainer, show its progress, and end its processes afterwards."""

import contextlib
import ctypes
import os
import re
import shlex
import signal
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from omegaconf import OmegaConf

from rpg.config.run_config import RunConfig
from rpg.files.integrity import newest_complete
from rpg.run import cleanup, signals
from rpg.run.directory import brief, resumed_step
from rpg.run.progress import Screen
from rpg.run.signals import DONE, FAILED

if TYPE_CHECKING:
    from rpg.verl_plugin.cpu.preload import Preloaded

PR_SET_CHILD_SUBREAPER = 36
LOOK_EVERY = 0.5  # seconds between two looks at the log
LOG_DELAY = 10.0  # seconds within which Ray brings the last lines of an ended worker into the log
TIMEOUT = re.compile(r"Timeout \([\d:.]+\)!$", re.MULTILINE)  # faulthandler's words before the stacks (watchdog.py)
SHOWN_LINES = 15  # of run.log after a failure; its reason stays in view on a terminal of 24 lines
STARTS = 3  # of a local Ray, whose node has 30 s to start, which a busy machine exceeds
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
        print(f"loads the checkpoint of step {step}", file=sys.stderr, flush=True)
    with redirected(log) as terminal:
        screen, begin = Screen(run, terminal, log), log.stat().st_size if log else 0
        code, last, reached = FAILED, "", None
        try:
            try:
                _train(run, screen, server)
                code, last = DONE, "" if run["trainer.val_only"] else f"done; next: rpg plot {brief(run.directory)}"
            finally:  # before anything is printed
                signals.ignore_from_now()
                screen.update()
        except KeyboardInterrupt:
            ending = signals.ending()
            if ending == signal.SIGHUP:  # the window is closed
                os.dup2(os.open(os.devnull, os.O_WRONLY), terminal.fileno())
            code = signals.ENDS[ending]
            last = f"{signals.WORDS[ending]} after {screen.progress}\n{next_start(run)}"
        except Exception as error:  # noqa: BLE001  # whatever ended the run, its processes end and the reason is shown
            traceback.print_exc()
            reached = limit(run, screen, error)
            why = (reached or str(error).strip() or type(error).__name__).splitlines()[-1].strip()
            last = f"error: the run failed after {screen.progress}: {why}\nafter you fix the cause, {next_start(run)}"
        try:
            screen.close()
            if code == FAILED and log:
                print(*end_of(log, begin, stack=reached is not None), sep="\n", file=terminal)
            if last:
                print(last, file=terminal)
        finally:
            _clean_up(run)
    return code


def limit(run: RunConfig, screen: Screen, error: Exception) -> str | None:
    """Return the limit at which the task runner has ended itself (watchdog.py), None if it died of something else."""
    from ray.exceptions import ActorDiedError

    now = time.monotonic()
    for key, since in (("rpg.time_limit", screen.began), ("rpg.stall_limit", screen.advanced)):
        if isinstance(error, ActorDiedError) and run[key] is not None and now - since > NEARLY * run[key]:
            return f"{run.shown(key)} s have passed; the stacks of all its threads are in the log"
    return None


def end_of(log: Path, begin: int, *, stack: bool) -> list[str]:
    """Return the last lines of run.log or, if its task runner ended at a limit, the stack of the main thread.

    begin: bytes of earlier starts, which may have ended at a limit, too.
    Ray brings the lines of its workers into the log a moment after these have ended.
    """
    until, arrived = time.monotonic() + LOG_DELAY, not stack
    while not arrived and time.monotonic() < until:
        arrived = TIMEOUT.search(log.read_bytes()[begin:].decode(errors="replace"))
        time.sleep(LOOK_EVERY)  # then the lines after it have, too
    *_, dump = TIMEOUT.split(log.read_bytes()[begin:].decode(errors="replace"))
    lines = [line for line in dump.splitlines() if line.strip()]
    stacks = [number for number, line in enumerate(lines) if line.endswith("(most recent call first):")]
    if not stack or not stacks:
        return [f"--- last lines of {brief(log)} ---", *lines[-SHOWN_LINES:], "---"]
    stack_lines = [line.rpartition("\x1b[0m ")[2] for line in lines[stacks[-1] :][:SHOWN_LINES]]  # no prefix of Ray's
    return [f"--- stack of the trainer, of {brief(log)} ---", *stack_lines, "---"]


def _train(run: RunConfig, screen: Screen, server: "Preloaded | None") -> None:
    """Train as verl's run_ppo does, with our task runner, and show the progress meanwhile."""
    import ray
    from verl.utils.device import auto_set_device

    from rpg.verl_plugin.cpu import PRELOADED_PYTHON
    from rpg.verl_plugin.task_runner import RPGTaskRunner

    config = OmegaConf.create(run.config)  # a copy: verl writes into its configuration
    auto_set_device(config)
    if server:
        runtime_env = config.ray_kwargs.ray_init.runtime_env
        runtime_env.env_vars[PRELOADED_PYTHON] = str(server.executable)
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

    if "rl_insight" in config.trainer.logger:
        os.environ["VERL_RL_INSIGHT_ENABLE"] = "1"
    ours = config.ray_kwargs.ray_init.get("runtime_env", {})
    environment = OmegaConf.merge(get_ppo_ray_runtime_env(config), {"env_vars": {"TRANSFER_QUEUE_ENABLE": "1"}}, ours)
    settings: Any = OmegaConf.to_container(OmegaConf.create({**config.ray_kwargs.ray_init, "runtime_env": environment}))
    print(f"ray.init: {settings}", flush=True)
    for attempt in range(1, STARTS + 1):
        try:
            ray.init(**settings)
            return
        except Exception as error:  # Ray has no class for a node that did not start in time
            if run.cluster or ray.is_initialized() or attempt == STARTS:
                raise
            print(f"Ray did not start in attempt {attempt} of {STARTS}: {error}", flush=True)
            cleanup.end_descendants(server)


def _clean_up(run: RunConfig) -> None:
    """End Ray and all processes of this run, and remove their files in shared memory."""
    import ray

    signal.pthread_sigmask(signal.SIG_BLOCK, signals.ENDS)  # Ray's end sets SIGTERM to its default
    ray.shutdown()
    signals.ignore_from_now()
    signal.pthread_sigmask(signal.SIG_UNBLOCK, signals.ENDS)
    if not run.cluster:
        cleanup.end_descendants()
        cleanup.remove_weights()


def next_start(run: RunConfig) -> str:
    """Say where the same command begins after this run has ended."""
    if not run.resumes_by_choice and run["trainer.resume_mode"] == "resume_path":
        return f"the same command resumes from {run['trainer.resume_from_path']}"
    newest = newest_complete(run.directory, contents=False).newest  # contents would take minutes for a large model
    if newest is None:
        return "there is no checkpoint yet: the same command begins again"
    return f"the same command resumes from {newest.name}"


@contextlib.contextmanager
def redirected(log: Path | None) -> Iterator[TextIO]:
    """Append this process's stdout and stderr, Ray's forwarded lines included, to log; with None to where they went.

    Yields the terminal's stream, the original stderr.
    """
    saved_out = os.dup(1)
    with open(os.dup(2), "w", buffering=1, encoding=sys.stderr.encoding, errors="backslashreplace") as terminal:
        if log is not None:
            with open(log, "ab", buffering=0) as target:
                os.dup2(target.fileno(), 1)
                os.dup2(target.fileno(), 2)
        try:
            yield terminal
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os.dup2(saved_out, 1)
            os.dup2(terminal.fileno(), 2)
            os.close(saved_out)
