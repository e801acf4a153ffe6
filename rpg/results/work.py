"""What is missing of a reproduction, done: launch scripts as child processes, their evaluations, one line of progress.

Nothing is remembered here. What is to be done next follows from the runs' directories, so that it does after a kill.
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
from rpg.results.records import ResultsError
from rpg.results.reproduction import Planned, cluster, evaluation

LOOK_EVERY = 0.5  # seconds between two looks at the processes
SAY_EVERY = 10.0  # seconds between two lines of progress, at least
Kind = Literal["training", "evaluation"]
ENDING = 180.0  # seconds that a run of an earlier start has to end, before its directory is given up


@dataclass(frozen=True)
class Failure:
    """What was not done (of a run its training or its evaluation), why, and where its output is."""

    what: str
    why: str
    log: Path | None = None
    kind: Kind = "training"

    def __str__(self) -> str:
        return f"{self.what}: {self.why}" + (f"; {self.log}" if self.log else "")


@dataclass
class Task:
    """A process that trains or evaluates.

    Attributes:
        began: seconds, by time.monotonic.
        stale: the last step of a log that goes further than the checkpoint, until the launch script has cut it.
    """

    run: Planned
    kind: Kind
    log: Path
    process: subprocess.Popen[bytes]
    began: float
    stale: int | None


class Work:
    """Does what is missing of the planned runs, `parallel` of them at a time.

    Attributes:
        failures: what could not be done, in the order in which it was found.
    """

    def __init__(
        self, planned: Sequence[Planned], out: Path, answers: int | None, parallel: int, children: Children
    ) -> None:
        self.failures: list[Failure] = []
        self._planned, self._out, self._answers, self._parallel = planned, out, answers, parallel
        self._children = children
        self._waiting = list(planned)
        self._active: list[Task] = []
        self._held: dict[str, float] = {}
        self._before = {run.name: run.steps - run.state().left for run in planned}
        self._steps = dict(self._before)
        self._began, self._said = time.monotonic(), 0.0

    def run(self) -> None:
        """Return when all is done or has failed, or, after a signal, when what was running has ended."""
        while self._waiting or self._active:
            if self._children.stopped:
                self._waiting.clear()
            for run in tuple(self._waiting):
                if len(self._active) < self._parallel and not self._in_use(run):
                    self._waiting.remove(run)
                    self._start(run)
            if self._waiting or self._active:
                time.sleep(LOOK_EVERY)
            for task in tuple(self._active):
                if task.process.poll() is not None:
                    self._active.remove(task)
                    self._ended(task)
            self._progress()

    def _in_use(self, run: Planned) -> bool:
        """Whether a run of an earlier start still holds the directory; one that does for too long is a failure.

        On a cluster the launch script goes on following the job that holds it.
        """
        if cluster():
            return False
        places = [run.directory]
        with contextlib.suppress(ResultsError, OSError):  # where the start of it says what is wrong
            places.append(evaluation(run, self._answers, self._out).directory)
        holder = next(filter(None, (held_by(place / RUN) for place in places)), None)
        if holder is None:
            return False
        since = self._held.setdefault(run.name, time.monotonic())
        if time.monotonic() - since > ENDING:
            self._waiting.remove(run)
            self.failures.append(Failure(run.name, f"its directory is {holder}"))
        elif time.monotonic() - since < LOOK_EVERY:
            print(f"{run.name}: {holder}; waiting for its end", flush=True)
        return True

    def _start(self, run: Planned) -> None:
        """Start what the run lacks, its training or the evaluation of its last checkpoint; nothing if it has both."""
        kind: Kind = "training"
        try:
            state = run.state()
            if state.finished:
                kind, made = "evaluation", evaluation(run, self._answers, self._out)
                if not made.alone or made.done():
                    return
                command = made.command()
            else:
                command = run.command()
        except (BadSetting, ResultsError, OSError) as error:
            self.failures.append(Failure(run.name, str(error), kind=kind))
            return
        logs = self._out / "logs"
        logs.mkdir(parents=True, exist_ok=True)
        log = logs / (f"{run.name}.log" if kind == "training" else f"{run.name}-evaluation.log")
        with open(log, "a", encoding="utf-8") as stream:
            stream.write(f"{time.strftime('%Y-%m-%dT%H:%M:%S%z')} {shlex.join(command)}\n")
        print(f"{run.name}: {kind} begins ({state.words}); {log}", flush=True)
        stale = state.step if state.step > (state.resumes_after or 0) and not state.finished else None
        self._active.append(Task(run, kind, log, self._children.start(command, log), time.monotonic(), stale))

    def _ended(self, task: Task) -> None:
        code, run = exit_code(task.process.returncode), task.run
        minutes = (time.monotonic() - task.began) / 60
        if self._children.stopped:
            return
        try:
            if task.kind == "training":
                done = run.state().finished
                self._waiting[:0] = [run] * done  # its evaluation is next
            else:
                done = evaluation(run, self._answers, self._out).done()
        except (ResultsError, OSError) as error:
            self.failures.append(Failure(run.name, str(error), task.log, task.kind))
            return
        print(f"{run.name}: {task.kind} {'done' if done else 'failed'} after {minutes:.1f} minutes", flush=True)
        if not done:
            why = f"{task.kind} ended with exit code {code}"
            missing = "" if code else f", and without step {run.steps} in its log and its checkpoint"
            self.failures.append(Failure(run.name, why + missing, task.log, task.kind))

    def _progress(self) -> None:
        """A line where a step was made since the last one."""
        now = time.monotonic()
        if now - self._said < SAY_EVERY:
            return
        changed = False
        for task in self._active:
            try:
                step = min(task.run.state().step, task.run.steps)
            except (ResultsError, OSError):  # in the middle of a line; the end of the run will tell
                continue
            if step == task.stale:
                continue
            task.stale = None
            changed = changed or step > self._steps[task.run.name]
            self._steps[task.run.name] = max(step, self._before[task.run.name])
        if not changed:
            return
        self._said = now
        failed = {failure.what for failure in self.failures if failure.kind == "training"}
        going = [run for run in self._planned if run.name not in failed]
        done, total = sum(self._steps[run.name] for run in going), sum(run.steps for run in going)
        running = ", ".join(f"{task.run.name} {self._steps[task.run.name]}/{task.run.steps}" for task in self._active)
        print(f"{running}; in all {done} of {total} steps{self._left(done, total, now)}", flush=True)

    def _left(self, done: int, total: int, now: float) -> str:
        """The time left at the pace of this start, starts of runs and validations included."""
        made = sum(self._steps.values()) - sum(self._before.values())
        return f", about {duration((now - self._began) / made * (total - done))} left" if made > 0 else ""


def duration(seconds: float) -> str:
    """Seconds in words."""
    if seconds < 5400:
        return f"{seconds / 60:.0f} minutes"
    return f"{seconds / 3600:.{0 if seconds > 100 * 3600 else 1}f} hours"
