"""What rpg.console=progress shows of a run: a bar, or a line a step outside a terminal, and the trainer's warnings."""

import contextlib
import json
import re
import textwrap
import time
from pathlib import Path
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from rpg.config.run_config import RunConfig
from rpg.files.atomic import METRICS
from rpg.logged import ALL_GROUPS, BATCH, LEFT_OUT_OF_TRAINING, LEFT_OUT_OF_VALIDATION, VALIDATED
from rpg.run.directory import resumed_step
from rpg.run.time_left import STEP_TIME, duration, time_left

WIDTH = 80  # columns of the lines
WARNING = re.compile(r"warning: step .*")  # of the trainer, in run.log
# shown besides time and training reward: label, metric, format; metrics that the run does not log are omitted
SHOWN = (("KL", "actor/rpg_kl", "{:.0e}"), ("clip", "actor/pg_clipfrac", "{:.1%}"))


class Screen:
    """Shows a run on a terminal, from its metrics.jsonl and run.log. The driver calls `update` while it waits.

    step: the last one that is logged. began, advanced: when the run began, and when its last record was read, in
    seconds of time.monotonic.
    """

    def __init__(self, run: RunConfig, terminal: TextIO, log: Path | None):
        """log: run.log, None for rpg.console=full, of which nothing is shown here."""
        self._metrics, self._log = run.directory / METRICS, log
        self.step, self._total = resumed_step(run), run["trainer.total_training_steps"]
        earlier = self._records()  # of the resumed run
        self._seen, self._log_seen = len(earlier), log.stat().st_size if log else 0
        self._step_times = [took for record in earlier if (took := record["data"].get(STEP_TIME))]
        self._validation, self._kinds = "", set[str]()
        self.began = self.advanced = time.monotonic()
        console = Console(file=terminal)
        has_bar = log is not None and terminal.isatty() and not console.is_dumb_terminal
        fields = [TextColumn(f"{{task.fields[{name}]}}") for name in ("time", "note")]
        self._bar = Progress(
            TextColumn("{task.description}"), BarColumn(bar_width=8), MofNCompleteColumn(), *fields,  # 80 columns
            console=console, disable=not has_bar, auto_refresh=False,
            redirect_stdout=False, redirect_stderr=False,  # they are redirected to run.log
        )  # fmt: skip
        begins = {"completed": self.step, "time": "", "note": "Ray, FSDP2, vLLM"}
        self._task = self._bar.add_task("starting", total=self._total, **begins)
        self._bar.start()

    def update(self) -> None:
        """Show what was logged since the last call."""
        # a network file system that fails, or shows half a write, for a moment; a closed window
        with contextlib.suppress(OSError, ValueError):
            if self._metrics.is_file() and self._metrics.stat().st_size != self._size:
                for record in (records := self._records())[self._seen :]:
                    data = {name: value for name, value in record["data"].items() if value is not None}  # NaN is null
                    self._show(record["step"], data)
                self._seen = len(records)
            for warning in self._warnings():
                self._say(textwrap.fill(warning, WIDTH, break_on_hyphens=False, break_long_words=False))
            self._bar.update(self._task, time=self.time(), refresh=True)

    def _records(self) -> list[dict[str, Any]]:
        """Return the complete records; a resumed run may still extend its last one (file_logger.py)."""
        content = self._metrics.read_bytes() if self._metrics.is_file() else b""
        records = [json.loads(line) for line in content[: content.rfind(b"\n") + 1].splitlines()]
        self._size = len(content)
        return records

    def _warnings(self) -> list[str]:
        """Return the trainer's new warnings, of those that differ in numbers alone the first."""
        if self._log is None:  # the terminal shows them
            return []
        with open(self._log, "rb") as stream:
            stream.seek(self._log_seen)
            lines, end, _ = stream.read().rpartition(b"\n")
        self._log_seen += len(lines + end)
        new = {re.sub(r"\d+", "", found): found for found in reversed(WARNING.findall(lines.decode(errors="replace")))}
        told = [text for kind, text in reversed(new.items()) if kind not in self._kinds]
        self._kinds |= new.keys()
        return told

    def _show(self, step: int, data: dict[str, Any]) -> None:
        self.step, self.advanced = step, time.monotonic()
        if STEP_TIME in data:
            self._step_times.append(data[STEP_TIME])
        note = self._note(data)
        self._bar.update(self._task, description="step", completed=step, note=note)
        if self._log and self._bar.disable:
            self._say(f"step {step}/{self._total or '?'}  {self.time()}  {note}")

    def _note(self, data: dict[str, Any]) -> str:
        validated: dict[str, list[float]] = {"acc": [], "reward": []}
        for key, value in data.items():
            if match := VALIDATED.fullmatch(key):
                validated[match["variable"]].append(value)
        for name, values in (("test score", validated["reward"]), ("acc", validated["acc"])):
            if values:
                self._validation = f"{name} {sum(values) / len(values):.3f}"
        missing = int(data.get(LEFT_OUT_OF_TRAINING, 0) + data.get(LEFT_OUT_OF_VALIDATION, 0))
        reward = ALL_GROUPS if ALL_GROUPS in data else BATCH
        shown = (("reward", reward, "{:+.2f}"), *(() if missing else SHOWN))
        parts = [f"{label} {form.format(data[key])}" for label, key, form in shown if key in data]
        parts += [f"{missing} without reward"] if missing else []
        return " ".join([self._validation, *parts]).strip()

    def _say(self, text: str) -> None:
        """Print above the bar."""
        self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def time(self) -> str:
        """Return the time left, or the time since the start where that is not known."""
        now, left = time.monotonic(), ""
        if self.advanced > self.began and self._total and self.step < self._total:
            left = time_left(self._step_times, self._total - self.step, now - self.advanced)
        return left or duration(now - self.began)

    def close(self) -> None:
        """Show the rest, end the bar, show the cursor."""
        self.update()
        with contextlib.suppress(OSError):
            self._bar.stop()

    @property
    def progress(self) -> str:
        """The step that the run has reached, such as "step 4 of 6"."""
        return f"step {self.step}" + (f" of {self._total}" if self._total else "")
