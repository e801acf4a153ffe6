"""What a run shows of its steps: warnings, and with rpg.console=progress a bar, or a line a step outside a terminal."""

import json
import textwrap
import time
from typing import Any, TextIO

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
from rich.text import Text

from rpg.config.run_config import RunConfig
from rpg.config.verl_keys import FUNCTION, ROLLOUT
from rpg.files.atomic import LEFT_OUT, METRICS
from rpg.logged import ADVANTAGES, LEFT_OUT_OF_TRAINING, LEFT_OUT_OF_VALIDATION, MASS, OF_VALIDATIONS, SCORES, VALIDATED
from rpg.logged import training_reward as reward_of
from rpg.run.directory import resumed_step
from rpg.run.processes import brief
from rpg.run.time_left import STEP_TIME, duration, time_left

LOOK_EVERY = 0.5  # seconds between two reads of the log
EQUAL_STEPS = 2  # steps in a row without a reward that differs from the others, after which a warning is due
SAME = 1e-6  # a smaller difference of rewards is rounding
# Largest distance of MASS from 1 in a first step. Rounded policies are normalised as well, so only the mean's noise is
# left: std(pi / mu) / sqrt(tokens), 1e-3 at 0.05 (bf16) and 2,500 tokens. A sampler that leaves tokens out is off by
# their mass, 0.05 on the toy task with top_p=0.8.
MASS_ERROR = 5e-3
WIDTH = 80  # columns of the lines

# shown besides time and training reward: label, metric, format; metrics that the run does not log are omitted
SHOWN = (("KL", "actor/rpg_kl", "{:.0e}"), ("clip", "actor/pg_clipfrac", "{:.1%}"))


class Warnings:
    """The warnings that follow from the records of a run's log, each once.

    left_out: number of responses without a reward since the start, by metric.
    """

    def __init__(self, run: RunConfig):
        self._run = run
        self._equal = 0  # steps in a row
        self._mass_seen = run["trainer.v1.trainer_mode"] != "sync"  # of older policies it is too noisy
        self.left_out = {LEFT_OUT_OF_TRAINING: 0, LEFT_OUT_OF_VALIDATION: 0}
        self.reasons = brief(run.directory / LEFT_OUT)

    def of(self, step: int, data: dict[str, Any]) -> list[str]:
        """Return the warnings of a step's record, which is the next of the log."""
        return [*self._sampler(step, data), *self._missing(step, data), *self._rewards(step, data)]

    def _sampler(self, step: int, data: dict[str, Any]) -> list[str]:
        if MASS not in data or self._mass_seen:
            return []
        self._mass_seen = True
        if abs(data[MASS] - 1) <= MASS_ERROR:
            return []
        settings = ", ".join(self._run.shown(f"{ROLLOUT}.{name}") for name in ("top_p", "top_k"))
        return [
            f"warning: step {step}: {MASS}={data[MASS]:.4f} is not 1: the rollouts cannot sample every token "
            f"({settings}, or an agent loop or engine option). The gradient is biased (docs/off-policy.md)"
        ]

    def _missing(self, step: int, data: dict[str, Any]) -> list[str]:
        responses, found = self._run["data.train_batch_size"] * self._run[f"{ROLLOUT}.n"], []
        for metric, counted, what in (
            (LEFT_OUT_OF_TRAINING, f"of {responses} responses", "are left out of the reward and of the update"),
            (LEFT_OUT_OF_VALIDATION, "responses", "count as wrong in the validation's accuracy"),
        ):
            missing = int(data.get(metric, 0))
            if missing and not self.left_out[metric]:
                found.append(f"warning: step {step}: {missing} {counted} have no reward and {what}: {self.reasons}")
            self.left_out[metric] += missing
        return found

    def _rewards(self, step: int, data: dict[str, Any]) -> list[str]:
        spans = [data[name.format("max")] - data[name.format("min")] for name in (SCORES, ADVANTAGES)
                 if name.format("max") in data]  # fmt: skip
        self._equal = self._equal + 1 if spans and min(spans) <= SAME else 0
        if self._equal != EQUAL_STEPS:
            return []
        reward = data.get(SCORES.format("max"), 0.0)
        which = f"every response got the reward {reward:g}" if spans[0] <= SAME else "rewards are equal in every group"
        own = self._run[f"{FUNCTION}.reward_kwargs.file"]
        trial = f"rpg score TRAIN_FILE --reward {own}" if own else "rpg score RUN"
        return [
            f"warning: steps {step - 1} and {step}: {which}, so nothing can be learned. The reward may not see "
            f"the form that the prompt asks for (try {trial}), or the problems are too hard or too easy"
        ]

    def total(self) -> str:
        """Say how many responses had no reward since the start; "" if all had one."""
        training, validation = self.left_out.values()
        if not training + validation:
            return ""
        return (
            f"warning: {training} responses of the training and {validation} of validations had no reward;\n"
            f"reasons: {self.reasons}"
        )


class Screen:
    """Shows a run on a terminal, from its metrics.jsonl. The trainer's driver calls `update` while it waits.

    warnings: what it warned of. step: the last one that is logged. began, advanced: when the run began, and when its
    last record was read, in seconds of time.monotonic.
    """

    def __init__(self, run: RunConfig, terminal: TextIO):
        self._run, self._terminal, self._metrics = run, terminal, run.directory / METRICS
        self.warnings, self.step = Warnings(run), resumed_step(run)
        self._total = run["trainer.total_training_steps"]
        earlier = self._lines()  # of the resumed run
        self._seen = len(earlier)
        self._step_times = [took for line in earlier if (took := json.loads(line)["data"].get(STEP_TIME))]
        self._validation = ""
        self.began = self.advanced = time.monotonic()
        self._shown = run["rpg.console"] == "progress"
        console = Console(file=terminal)
        self._has_bar = self._shown and terminal.isatty() and not console.is_dumb_terminal
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=8),  # fits into 80 columns
            MofNCompleteColumn(),
            _Time(self),
            TextColumn("{task.fields[note]}"),
            console=console,
            disable=not self._has_bar,
            refresh_per_second=1 / LOOK_EVERY,
            redirect_stdout=False,  # they are redirected to run.log, and rich would show them above the bar
            redirect_stderr=False,
        )
        self._task = self._bar.add_task("starting", total=self._total, completed=self.step, note="Ray, FSDP2, vLLM")
        self._bar.start()

    def update(self) -> None:
        """Show the records written since the last call."""
        try:
            if not self._metrics.is_file() or self._metrics.stat().st_size == self._size:
                return
            lines = self._lines()
        except OSError:  # a network file system may fail for a moment
            return
        new = [json.loads(line) for line in lines[self._seen :]]
        if not new and lines:  # the validation with which a resumed run begins extends the last record
            last = json.loads(lines[-1])
            new = [{**last, "data": {name: last["data"][name] for name in last["data"] if _of_validation(name)}}]
        self._seen = len(lines)
        for record in new:
            data = {name: value for name, value in record["data"].items() if value is not None}  # NaN is null there
            self._show(record["step"], data)

    def _lines(self) -> list[bytes]:
        """Return the complete lines; a resumed run may still extend its last one (file_logger.py)."""
        content = self._metrics.read_bytes() if self._metrics.is_file() else b""
        self._size = len(content)
        return content[: content.rfind(b"\n") + 1].splitlines()

    def _show(self, step: int, data: dict[str, Any]) -> None:
        self.step, self.advanced = step, time.monotonic()
        for warning in self.warnings.of(step, data):
            self._say(textwrap.fill(warning, WIDTH, break_on_hyphens=False, break_long_words=False))
        if STEP_TIME in data:
            self._step_times.append(data[STEP_TIME])
        note = self._note(data)
        self._bar.update(self._task, description="step", completed=step, note=note)
        if self._shown and not self._has_bar:
            self._say(f"step {step}/{self._total}  {self.time()}  {note}")

    def _note(self, data: dict[str, Any]) -> str:
        validated: dict[str, list[float]] = {"acc": [], "reward": []}
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
        return " ".join([self._validation, *parts]).strip()

    def _say(self, text: str) -> None:
        """Print above the bar."""
        if self._has_bar:
            self._bar.console.print(text, markup=False, highlight=False, soft_wrap=True)
        else:
            print(text, file=self._terminal, flush=True)

    def time(self) -> str:
        """Return the time left, or the time since the start where that is not known."""
        now, left = time.monotonic(), ""
        if self.advanced > self.began and self._total and self.step < self._total:
            left = time_left(self._step_times, self._total - self.step, now - self.advanced)
        return left or duration(now - self.began)

    def close(self) -> None:
        """Show the remaining records and the number of responses without a reward, end the bar, show the cursor."""
        self.update()
        self._bar.stop()
        if total := self.warnings.total():
            print(total, file=self._terminal)

    @property
    def progress(self) -> str:
        """The step that the run has reached, such as "step 4 of 6"."""
        return f"step {self.step}" + (f" of {self._total}" if self._total else "")


class _Time(ProgressColumn):
    """The screen's time, which changes between two records."""

    def __init__(self, screen: Screen):
        super().__init__()
        self._screen = screen

    def render(self, task: Task) -> Text:
        return Text(self._screen.time(), style="progress.remaining")


def _of_validation(name: str) -> bool:
    return name.startswith(OF_VALIDATIONS)
