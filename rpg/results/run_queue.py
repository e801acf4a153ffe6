"""The runs of a reproduction, done one after another or N at a time: launch scripts as child processes.

What is to be done next follows from the runs' directories alone, so that the same command goes on after a kill.
"""

import contextlib
import shlex
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rpg.files.lock import RUN, held_by
from rpg.launching.children import Children, exit_code
from rpg.launching.overrides import BadSetting
from rpg.results.config import ResultsError
from rpg.results.forecast import duration
from rpg.results.reproduction import PlannedRun, cluster, evaluation

POLL_SECONDS = 0.5
REPORT_SECONDS = 10.0  # between two lines of progress, at least
LOCK_SECONDS = 180.0  # that a run of an earlier start has to end, before its directory is given up
Kind = Literal["training", "evaluation"]


@dataclass(frozen=True)
class Failure:
    """What was not done (of a run its training or its evaluation), why, and where its output is."""

    name: str
    reason: str
    log: Path | None = None
    kind: Kind = "training"

    def __str__(self) -> str:
        return f"{self.name}: {self.reason}" + (f"; {self.log}" if self.log else "")


@dataclass(frozen=True)
class Task:
    """A process that trains or evaluates. started: seconds, by time.monotonic."""

    run: PlannedRun
    kind: Kind
    log: Path
    process: subprocess.Popen[bytes]
    started: float


class RunQueue:
    """Does what is missing of the planned runs, `parallel` of them at a time.

    Attributes:
        failures: what could not be done, in the order in which it was found.
    """

    def __init__(
        self, planned: Sequence[PlannedRun], out: Path, answers: int | None, parallel: int, children: Children
    ) -> None:
        self.failures: list[Failure] = []
        self._planned, self._out, self._answers, self._parallel = planned, out, answers, parallel
        self._children = children
        self._waiting = list(planned)
        self._active: list[Task] = []
        self._locked_since: dict[str, float] = {}
        self._steps = {run.name: run.steps - run.state().left for run in planned}
        self._steps_before = sum(self._steps.values())
        self._started = self._reported = time.monotonic()

    def work(self) -> None:
        """Return when all is done or has failed, or, after a signal, when what was running has ended."""
        while self._waiting or self._active:
            if self._children.stopped:
                self._waiting.clear()
            for run in tuple(self._waiting):
                if len(self._active) < self._parallel and not self._in_use(run):
                    self._waiting.remove(run)
                    self._start(run)
            if self._waiting or self._active:
                time.sleep(POLL_SECONDS)
            for task in tuple(self._active):
                if task.process.poll() is not None:
                    self._active.remove(task)
                    self._ended(task)
            self._report()

    def _in_use(self, run: PlannedRun) -> bool:
        """Whether a run of an earlier start still holds the directory; one that does for too long is a failure.

        On a cluster the launch script goes on following the job that holds it.
        """
        if cluster():
            return False
        places = [run.directory]
        with contextlib.suppress(ResultsError, OSError):  # `_start` names the error
            places.append(evaluation(run, self._answers, self._out).directory)
        holder = next(filter(None, (held_by(place / RUN) for place in places)), None)
        if holder is None:
            return False
        if run.name not in self._locked_since:
            print(f"{run.name}: {holder}; waiting for its end", flush=True)
        since = self._locked_since.setdefault(run.name, time.monotonic())
        if time.monotonic() - since > LOCK_SECONDS:
            self._waiting.remove(run)
            self.failures.append(Failure(run.name, f"its directory is {holder}"))
        return True

    def _start(self, run: PlannedRun) -> None:
        """Start what the run lacks, its training or the evaluation of its last checkpoint; nothing if it has both."""
        kind: Kind = "training"
        try:
            state = run.state()
            if not state.finished:
                command = run.command()
            else:
                kind, last = "evaluation", evaluation(run, self._answers, self._out)
                if not last.separate or last.done():
                    return
                command = last.command()
        except (BadSetting, ResultsError, OSError) as error:
            self.failures.append(Failure(run.name, str(error), kind=kind))
            return
        log = self._out / "logs" / (f"{run.name}.log" if kind == "training" else f"{run.name}-evaluation.log")
        log.parent.mkdir(parents=True, exist_ok=True)
        with open(log, "a", encoding="utf-8") as stream:
            stream.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {shlex.join(command)}\n")
        print(f"{run.name}: {kind} begins ({state.text}); {log}", flush=True)
        self._active.append(Task(run, kind, log, self._children.start(command, log), time.monotonic()))

    def _ended(self, task: Task) -> None:
        if self._children.stopped:
            return
        code, run = exit_code(task.process.returncode), task.run
        try:
            if task.kind == "training":
                done = run.state().finished
                self._waiting[:0] = [run] * done  # its evaluation is next
            else:
                done = evaluation(run, self._answers, self._out).done()
        except (ResultsError, OSError) as error:
            self.failures.append(Failure(run.name, str(error), task.log, task.kind))
            return
        took = duration(time.monotonic() - task.started)
        print(f"{run.name}: {task.kind} {'done' if done else 'failed'} after {took}", flush=True)
        if not done:
            missing = "" if code else f", and without step {run.steps} in its log and its checkpoint"
            reason = f"{task.kind} ended with exit code {code}{missing}"
            self.failures.append(Failure(run.name, reason, task.log, task.kind))

    def _report(self) -> None:
        """Print a line where a step was made since the last one: steps, and the time left at the pace of this start."""
        now = time.monotonic()
        if now - self._reported < REPORT_SECONDS:
            return
        before = sum(self._steps.values())
        for task in self._active:
            with contextlib.suppress(ResultsError, OSError):  # in the middle of a line; `_ended` names the error
                self._steps[task.run.name] = min(task.run.state().step, task.run.steps)
        done = sum(self._steps.values())
        if done == before:
            return
        self._reported = now
        failed = {failure.name for failure in self.failures}
        left = sum(run.steps - self._steps[run.name] for run in self._planned if run.name not in failed)
        running = ", ".join(f"{task.run.name} {self._steps[task.run.name]}/{task.run.steps}" for task in self._active)
        made = done - self._steps_before
        estimate = f", about {duration((now - self._started) / made * left)}" if made > 0 else ""
        print(f"{running}; {left} steps left in all{estimate}", flush=True)
