"""Follow a run from the driver: draw a progress bar from its files, warn, and stop a run without progress."""

import json
import os
import signal
import textwrap
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from rpg.config.run_config import RunConfig
from rpg.files.atomic import LEFT_OUT, STATUS
from rpg.logged import ADVANTAGES, LEFT_OUT_OF_TRAINING, LEFT_OUT_OF_VALIDATION, MASS, OF_VALIDATIONS, SCORES, VALIDATED
from rpg.logged import training_reward as reward_of
from rpg.run.directory import resumed_step
from rpg.run.processes import brief
from rpg.run.signals import FAILED, TIMED_OUT
from rpg.run.time_left import STEP_TIME, duration, time_left

INTERRUPT = signal.SIGUSR1
LOOK_EVERY = 0.5  # seconds between two reads of the file
SAY_EVERY = 10.0  # seconds between two lines about the start and about dropped groups, where there is no bar
EQUAL_STEPS = 2  # steps in a row without a reward that differs from the others, after which a warning is due
SAME = 1e-6  # a smaller difference of rewards is rounding
# Largest distance of MASS from 1 in a first step. Rounded policies are normalised as well, so only the mean's noise is
# left: std(pi / mu) / sqrt(tokens), 1e-3 at 0.05 (bf16) and 2,500 tokens. A sampler that leaves tokens out is off by
# their mass, 0.05 on the toy task with top_p=0.8.
MASS_ERROR = 5e-3
WIDTH = 80  # columns of the lines

# shown besides time and training reward: label, metric, format; metrics that the run does not log are omitted
SHOWN = (("KL", "actor/rpg_kl", "{:.0e}"), ("clip", "actor/pg_clipfrac", "{:.1%}"))


class Verdict(NamedTuple):
    """Why the monitor stopped a run, and the exit code."""

    code: int
    reason: str


class Monitor(threading.Thread):
    """Reads metrics as they are written; interrupts the main thread when a limit is exceeded.

    verdict: why the run was stopped, or None. The interrupt is INTERRUPT, which train.py handles like Ctrl-C.
    SIGINT itself would not work in a job that a script started in the background, because such a job ignores it.
    """

    def __init__(self, run: RunConfig, metrics: Path, terminal: TextIO, preload_failure: Callable[[], str | None]):
        super().__init__(daemon=True, name="rpg-monitor")
        self.metrics = metrics
        self.verdict: Verdict | None = None
        self._stall, self._limit = run.settings.stall_limit, run.settings.time_limit
        self._total = run.settings.steps
        self._step = resumed_step(run)
        lines = self._lines()  # of the resumed run
        earlier = [json.loads(line)["data"] for line in lines]
        self._seen, self._last = len(lines), lines[-1:]
        self._step_times: list[float] = [data[STEP_TIME] for data in earlier if STEP_TIME in data]
        self._validation = ""
        self._run, self._status_file = run, metrics.parent / STATUS
        self._has_logged = False  # whether this start has logged a step or validation
        self._left_out = {LEFT_OUT_OF_TRAINING: 0, LEFT_OUT_OF_VALIDATION: 0}
        self._equal = 0  # steps in a row
        self._mass_seen = run.settings.schedule != "sync"  # of older policies it is too noisy
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._preload_failure = preload_failure
        self._terminal = terminal
        self._shown = run.settings.console == "progress"
        console = Console(file=terminal)
        self._has_bar = self._shown and terminal.isatty() and not console.is_dumb_terminal
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=8),  # fits into 80 columns
            MofNCompleteColumn(),
            TextColumn("{task.fields[time]}", style="progress.remaining"),
            TextColumn("{task.fields[note]}"),
            console=console,
            disable=not self._has_bar,
            refresh_per_second=1 / LOOK_EVERY,
            redirect_stdout=False,  # they are redirected to run.log, and rich would show them above the bar
            redirect_stderr=False,
        )
        note = self._note = "Ray, FSDP2, vLLM"
        self._task = self._progress.add_task("starting", total=self._total, completed=self._step, time="", note=note)

    def start(self) -> None:
        """Show the bar and begin to monitor."""
        self._status_file.unlink(missing_ok=True)  # of a run that was killed
        self._began = time.monotonic()
        self._progress.start()
        super().start()

    def run(self) -> None:
        """Monitor until the end; an error in the monitor stops the run, because its limits would no longer apply."""
        try:
            self._loop()
            elapsed = time.monotonic() - self._began
            phase = "step" if self._read(elapsed) or self._has_logged else "starting"
            self._progress.update(self._task, description=phase, note=self._note, time=duration(elapsed))
        except Exception as error:  # noqa: BLE001  # whatever it is, the limits are no longer watched
            traceback.print_exc()
            self._end(FAILED, f"the monitor of the run failed: {type(error).__name__}: {error}")

    def _loop(self) -> None:
        began = advanced = self._began
        last_said = began
        while not self._ended.wait(LOOK_EVERY):
            now = time.monotonic()
            if self._read(now - began):
                advanced, self._has_logged = now, True
            phase, note = self._status()
            of_run = self._time(now - began, now - advanced)
            self._progress.update(self._task, description=phase, note=note, time=of_run)
            is_news = not self._has_logged or note != self._note
            if self._shown and not self._has_bar and is_news and now - last_said >= SAY_EVERY:
                last_said = now
                print(f"{phase} {note}  {now - began:.0f} s", file=self._terminal, flush=True)
            if failure := self._preload_failure():
                self._end(FAILED, failure)
            elif self._stall is not None and now - advanced > self._stall:
                self._end(TIMED_OUT, f"no step finished for {self._stall} s after step {self._step} (rpg.stall_limit)")
            elif self._limit is not None and now - began > self._limit:
                self._end(TIMED_OUT, f"the run took more than {self._limit} s, at step {self._step} (rpg.time_limit)")

    def _status(self) -> tuple[str, str]:
        """Return the phase and a note: that of the last step, or, before it and while groups are dropped, of now."""
        try:
            now = json.loads(self._status_file.read_text())
        except OSError:  # not written yet
            return ("step" if self._has_logged else "starting"), self._note
        phase, kept = now["phase"], f"{now['groups']}/{now['wanted']} groups"
        if phase == "rollout" and now["dropped"]:
            metric = self._run.settings.filter_metric
            return phase, f"{kept}, {now['dropped']} dropped (equal {metric})"
        if self._has_logged:
            return "step", self._note
        return phase, kept if phase == "rollout" else ""

    def _say(self, line: str, always: bool = False) -> None:
        """Show lines above the bar; always: also beside verl's output."""
        if self._shown or always:
            text = textwrap.fill(line, WIDTH, break_on_hyphens=False, break_long_words=False)
            if self._has_bar:
                self._progress.console.print(text, markup=False, highlight=False, soft_wrap=True)
            else:
                print(text, file=self._terminal, flush=True)

    def _warn(self, step: int, data: dict) -> None:
        """Say it when responses are left out for the first time, and when no reward differs from the others.

        Also if the first step's rollouts were not sampled from the whole policy.
        """
        s = self._run.settings
        if MASS in data and not self._mass_seen:
            self._mass_seen = True
            if abs(data[MASS] - 1) > MASS_ERROR:
                line = (
                    f"warning: step {step}: {MASS}={data[MASS]:.4f} is not 1: mu, whose log-probs the rollouts carry, "
                    f"cannot sample every token ({s.shown('top_p')}, {s.shown('top_k')}, or an agent loop or engine "
                    "option). The gradient is biased (docs/off-policy.md)"
                )
                self._say(line, always=True)
        for metric, responses, what in (
            (LEFT_OUT_OF_TRAINING, f"of {s.batch * s.n} responses", "are left out of the reward and of the update"),
            (LEFT_OUT_OF_VALIDATION, "responses", "count as wrong in the validation's accuracy"),
        ):
            missing = int(data.get(metric, 0))
            if missing and not self._left_out[metric]:
                self._say(f"warning: step {step}: {missing} {responses} have no reward and {what}: {self._reasons}")
            self._left_out[metric] += missing
        spans = [data[name.format("max")] - data[name.format("min")] for name in (SCORES, ADVANTAGES)
                 if name.format("max") in data]  # fmt: skip
        self._equal = self._equal + 1 if spans and min(spans) <= SAME else 0
        if self._equal == EQUAL_STEPS:
            reward = data.get(SCORES.format("max"), 0.0)
            which = (
                f"every response got the reward {reward:g}" if spans[0] <= SAME else "rewards are equal in every group"
            )
            trial = f"rpg score TRAIN_FILE --reward {s.reward_file}" if s.reward_file else "rpg score RUN"
            self._say(
                f"warning: steps {step - 1} and {step}: {which}, so nothing can be learned. The reward may not see "
                f"the form that the prompt asks for (try {trial}), or the problems are too hard or too easy"
            )

    @property
    def _reasons(self) -> Path:
        return brief(self.metrics.parent / LEFT_OUT)

    @property
    def left_out(self) -> str:
        """How many responses had no reward since the start, and where the reasons are; "" if all had one."""
        training, validation = self._left_out[LEFT_OUT_OF_TRAINING], self._left_out[LEFT_OUT_OF_VALIDATION]
        if not training + validation:
            return ""
        return (
            f"warning: {training} responses of the training and {validation} of validations had no reward;\n"
            f"reasons: {self._reasons}"
        )

    def _end(self, code: int, reason: str) -> None:
        self.verdict = Verdict(code, reason)
        self._ended.set()
        os.kill(os.getpid(), INTERRUPT)

    def _read(self, elapsed: float) -> bool:
        """Show the complete lines written since the last read; return whether there were any."""
        try:
            if not self.metrics.is_file() or self.metrics.stat().st_size == self._size:
                return False
            lines = self._lines()
        except OSError:  # a network file system may fail for a moment; it is read again, and the limits hold
            return False
        grown = lines[self._seen - 1 : self._seen] != self._last  # by the validation with which a resumed run begins
        new = lines[self._seen - grown :]
        for number, line in enumerate(new):
            record = json.loads(line)
            data = {name: value for name, value in record["data"].items() if value is not None}  # NaN is null there
            if grown and number == 0:
                data = {name: value for name, value in data.items() if name.startswith(OF_VALIDATIONS)}
            self._show(record["step"], data, elapsed)
        self._seen, self._last = len(lines), lines[-1:]
        return bool(new)

    def _lines(self) -> list[bytes]:
        """Return the complete lines; a resumed run may still extend its last one (file_logger.py)."""
        content = self.metrics.read_bytes() if self.metrics.is_file() else b""
        self._size = len(content)
        return content[: content.rfind(b"\n") + 1].splitlines()

    def _show(self, step: int, data: dict, elapsed: float) -> None:
        self._step = step
        self._warn(step, data)
        if STEP_TIME in data:
            self._step_times.append(data[STEP_TIME])
        validated = {"acc": [], "reward": []}
        for key, value in data.items():
            if match := VALIDATED.fullmatch(key):
                validated[match["variable"]].append(value)
        for name, values in (("acc", validated["acc"]), ("test score", validated["reward"])):
            if values:
                self._validation = f"{name} {sum(values) / len(values):.3f}"
                break
        missing = int(data.get(LEFT_OUT_OF_TRAINING, 0) + data.get(LEFT_OUT_OF_VALIDATION, 0))
        shown = (("reward", reward_of(data), "{:+.2f}"), *(() if missing else SHOWN))
        parts = [f"{label} {form.format(data[key])}" for label, key, form in shown if key in data]
        parts += [f"{missing} without reward"] if missing else []
        note = self._note = " ".join([self._validation, *parts]).strip()
        self._progress.update(self._task, description="step", completed=step, note=note)
        if self._shown and not self._has_bar:
            left = time_left(self._step_times, self._total - step) if self._total and step < self._total else ""
            print(f"step {step}/{self._total}  {elapsed:.0f} s  {left}  {note}", file=self._terminal, flush=True)

    def _time(self, elapsed: float, since: float) -> str:
        """Return the time left, or the time since the start where that is not known. since: the last step's end."""
        left = ""
        if self._has_logged and self._total and self._step < self._total:
            left = time_left(self._step_times, self._total - self._step, since)
        return left or duration(elapsed)

    def stop(self) -> None:
        """Show the remaining lines, stop the thread, end the bar and restore the cursor."""
        self._ended.set()
        if self.is_alive():
            self.join(timeout=5)
        self._status_file.unlink(missing_ok=True)
        if self._has_bar:
            self._progress.stop()

    @property
    def progress(self) -> str:
        """The step that the run has reached, such as "step 4 of 6"."""
        return f"step {self._step}" + (f" of {self._total}" if self._total else "")
