"""Follow a run from the driver: a progress bar from metrics.jsonl, and an end to a run that makes no progress."""

import json
import os
import signal
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from rpg.checks.check import Run
from rpg.launching.lost_workers import LostWorkers
from rpg.launching.signals import FAILED, TIMED_OUT

INTERRUPT = signal.SIGUSR1
LOOK_EVERY = 0.5  # seconds between two looks at the file
ASK_EVERY = 5.0  # seconds between two questions to Ray

# A run whose actor is lost cannot go on, but mostly notices by itself: seconds until the monitor ends it
NOTICE = 30.0

# What the bar shows beside time: label, metric, format. A metric that the run does not log is omitted.
SHOWN = (
    ("reward", "critic/score/mean", "{:+.2f}"),
    ("KL", "actor/rpg_kl", "{:.0e}"),
    ("clip", "actor/pg_clipfrac", "{:.1%}"),
)


class Verdict(NamedTuple):
    """Why the monitor ended a run, and the exit code."""

    code: int
    reason: str


class Monitor(threading.Thread):
    """Reads metrics as they are written; interrupts the main thread when a limit passes.

    verdict: why the run was ended, None while all is well. The interrupt is INTERRUPT to this process, for which
    run.py has the handler of Ctrl-C, so that there is one way to end a run. SIGINT itself would not do: a job that
    a script started in the background ignores it.
    """

    def __init__(self, run: Run, metrics: Path, terminal: TextIO, preload_failure: Callable[[], str | None]):
        super().__init__(daemon=True, name="rpg-monitor")
        self.metrics = metrics
        self.verdict: Verdict | None = None
        self._lost_workers = LostWorkers()
        self._stall, self._limit = run.get("rpg.stall_limit"), run.get("rpg.time_limit")
        self._total = run.get("trainer.total_training_steps")
        earlier = self._lines()  # of the run that is resumed
        self._seen = len(earlier)
        self._first = self._step = json.loads(earlier[-1])["step"] if earlier else 0
        self._validation = ""
        self._ended = threading.Event()
        self._preload_failure = preload_failure
        self._terminal = terminal
        self._shown = run.get("rpg.console") == "progress"
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=10),  # all fits into 80 columns
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("left"),
            TextColumn("{task.fields[note]}"),
            console=Console(file=terminal),
            disable=not (self._shown and terminal.isatty()),
        )
        self._task = self._progress.add_task("starting", total=self._total, note="Ray, FSDP2, vLLM")

    def run(self) -> None:
        """Monitor until the end; an error in the monitor ends the run, which would go on without its limits."""
        try:
            self._loop()
        except Exception as error:  # noqa: BLE001  # whatever it is, the limits are no longer watched
            traceback.print_exc()
            self._end(FAILED, f"the monitor of the run failed: {type(error).__name__}: {error}")

    def _loop(self) -> None:
        began = advanced = time.monotonic()
        last_asked, lost_since = began, 0.0
        self._progress.start()
        while not self._ended.wait(LOOK_EVERY):
            now = time.monotonic()
            if self._read(now - began):
                advanced = now
            if now - last_asked > ASK_EVERY:
                last_asked = now
                self._lost_workers.ask()
            if self._lost_workers.lost:
                lost_since = lost_since or now
            if failure := self._preload_failure():
                self._end(FAILED, failure)
            elif lost_since and now - lost_since > NOTICE:
                self._end(FAILED, "; ".join(self._lost_workers.lost))
            elif self._stall is not None and now - advanced > self._stall:
                self._end(TIMED_OUT, f"no step finished for {self._stall} s after step {self._step} (rpg.stall_limit)")
            elif self._limit is not None and now - began > self._limit:
                self._end(TIMED_OUT, f"the run took more than {self._limit} s, at step {self._step} (rpg.time_limit)")

    def lost(self) -> list[str]:
        """The lost processes that the run cannot do without, a line each; empty while all is well."""
        failure = self._preload_failure()
        return ([failure] if failure else []) + self._lost_workers.ask(patience=10)

    def _end(self, code: int, reason: str) -> None:
        self.verdict = Verdict(code, reason)
        self._ended.set()
        os.kill(os.getpid(), INTERRUPT)

    def _read(self, elapsed: float) -> bool:
        """Show the complete lines written since the last look; whether there were any."""
        if not self.metrics.is_file() or self.metrics.stat().st_size == self._size:
            return False
        new = self._lines()[self._seen :]
        self._seen += len(new)
        for line in new:
            record = json.loads(line)
            self._show(record["step"], record["data"], elapsed)
        return bool(new)

    def _lines(self) -> list[bytes]:
        """The complete lines; the last one of a resumed run may still grow (file_logger.py)."""
        content = self.metrics.read_bytes() if self.metrics.is_file() else b""
        self._size = len(content)
        return content[: content.rfind(b"\n") + 1].splitlines()

    def _show(self, step: int, data: dict, elapsed: float) -> None:
        self._step = step
        # with several responses per prompt verl also logs the best and the majority's
        accuracies = [value for key, value in data.items() if key.startswith("val-core/") and "/mean@" in key]
        if accuracies:
            self._validation = f"acc {sum(accuracies) / len(accuracies):.3f}"
        parts = [f"{label} {form.format(data[key])}" for label, key, form in SHOWN if key in data]
        note = "  ".join([self._validation, *parts]).strip()
        self._progress.update(self._task, description="step", completed=step, note=note)
        if self._shown and not self._terminal.isatty():
            done = step - self._first
            left = f"{elapsed / done * (self._total - step):.0f} s left" if done > 0 and self._total else ""
            print(f"step {step}/{self._total}  {elapsed:.0f} s  {left}  {note}", file=self._terminal, flush=True)

    def finish(self) -> None:
        """Show what was written last."""
        self._ended.set()
        self.join(timeout=5)
        self._read(0.0)

    def stop(self) -> None:
        """End the thread and give the terminal back."""
        self._ended.set()
        self._lost_workers.stop()
        self._progress.stop()
