"""Follow a run from the driver: draw a progress bar from metrics.jsonl and stop a run without progress."""

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
from rpg.launching.measures import VALIDATED, training_reward
from rpg.launching.signals import FAILED, TIMED_OUT

INTERRUPT = signal.SIGUSR1
LOOK_EVERY = 0.5  # seconds between two reads of the file
ASK_EVERY = 5.0  # seconds between two queries to Ray

# A run that lost an actor usually ends by itself; the monitor stops it after this many seconds
NOTICE = 30.0

# shown besides time and training reward: label, metric, format; metrics that the run does not log are omitted
SHOWN = (
    ("KL", "actor/rpg_kl", "{:.0e}"),
    ("clip", "actor/pg_clipfrac", "{:.1%}"),
)


class Verdict(NamedTuple):
    """Why the monitor stopped a run, and the exit code."""

    code: int
    reason: str


class Monitor(threading.Thread):
    """Reads metrics as they are written; interrupts the main thread when a limit is exceeded.

    verdict: why the run was stopped, or None. The interrupt is the signal INTERRUPT, which run.py handles like Ctrl-C.
    SIGINT itself would not work in a job that a script started in the background, because such a job ignores it.
    """

    def __init__(self, run: Run, metrics: Path, terminal: TextIO, preload_failure: Callable[[], str | None]):
        super().__init__(daemon=True, name="rpg-monitor")
        self.metrics = metrics
        self.verdict: Verdict | None = None
        self._lost_workers = LostWorkers()
        self._stall, self._limit = run.get("rpg.stall_limit"), run.get("rpg.time_limit")
        self._total = run.get("trainer.total_training_steps")
        earlier = self._lines()  # steps of the resumed run
        self._seen = len(earlier)
        self._first = self._step = json.loads(earlier[-1])["step"] if earlier else 0
        self._validation = ""
        self._ended = threading.Event()
        self._preload_failure = preload_failure
        self._terminal = terminal
        self._shown = run.get("rpg.console") == "progress"
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=10),  # fits into 80 columns
            MofNCompleteColumn(),
            TimeRemainingColumn(),
            TextColumn("left"),
            TextColumn("{task.fields[note]}"),
            console=Console(file=terminal),
            disable=not (self._shown and terminal.isatty()),
        )
        self._task = self._progress.add_task("starting", total=self._total, note="Ray, FSDP2, vLLM")

    def run(self) -> None:
        """Monitor until the end; an error in the monitor stops the run, because its limits would no longer apply."""
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
        """Return one line per lost process that the run needs; empty if there is none."""
        failure = self._preload_failure()
        return ([failure] if failure else []) + self._lost_workers.ask(patience=10)

    def _end(self, code: int, reason: str) -> None:
        self.verdict = Verdict(code, reason)
        self._ended.set()
        os.kill(os.getpid(), INTERRUPT)

    def _read(self, elapsed: float) -> bool:
        """Show the complete lines written since the last read; return whether there were any."""
        if not self.metrics.is_file() or self.metrics.stat().st_size == self._size:
            return False
        new = self._lines()[self._seen :]
        self._seen += len(new)
        for line in new:
            record = json.loads(line)
            self._show(record["step"], record["data"], elapsed)
        return bool(new)

    def _lines(self) -> list[bytes]:
        """Return the complete lines; a resumed run may still extend its last one (file_logger.py)."""
        content = self.metrics.read_bytes() if self.metrics.is_file() else b""
        self._size = len(content)
        return content[: content.rfind(b"\n") + 1].splitlines()

    def _show(self, step: int, data: dict, elapsed: float) -> None:
        self._step = step
        validated = {"acc": [], "reward": []}
        for key, value in data.items():
            if match := VALIDATED.fullmatch(key):
                validated[match["variable"]].append(value)
        for name, values in (("acc", validated["acc"]), ("test score", validated["reward"])):
            if values:
                self._validation = f"{name} {sum(values) / len(values):.3f}"
                break
        shown = (("reward", training_reward(data), "{:+.2f}"), *SHOWN)
        parts = [f"{label} {form.format(data[key])}" for label, key, form in shown if key in data]
        note = "  ".join([self._validation, *parts]).strip()
        self._progress.update(self._task, description="step", completed=step, note=note)
        if self._shown and not self._terminal.isatty():
            done = step - self._first
            left = f"{elapsed / done * (self._total - step):.0f} s left" if done > 0 and self._total else ""
            print(f"step {step}/{self._total}  {elapsed:.0f} s  {left}  {note}", file=self._terminal, flush=True)

    def finish(self) -> None:
        """Show the remaining lines."""
        self._ended.set()
        self.join(timeout=5)
        self._read(0.0)

    def stop(self) -> None:
        """Stop the thread and restore the terminal."""
        self._ended.set()
        self._lost_workers.stop()
        self._progress.stop()
