"""A run, and how it is read from what loggers left on disk."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from rpg.results.methods import benchmark_of, judge_of_config, method_of_config, method_of_name
from rpg.results.records import Record, ResultsError, assemble, read_jsonl
from rpg.results.tensorboard import PATTERN, event_files, read_events
from rpg.results.wandb_offline import read_wandb

METRICS = "metrics.jsonl"
EARLIER = "metrics.previous.jsonl"  # the part before a resume, until the run ends and makes one file of both


@dataclass
class Run:
    """One run: its history by step, and what is known of how it was made.

    Attributes:
        path: what it was read from. directory: where its other files lie.
        kind: metrics.jsonl, wandb or tensorboard.
        config: resolved configuration, {} where there is none. environment: environment.json, likewise.
        history: step -> metric -> value.
        notes: what had to be left out, replaced or guessed.
    """

    name: str
    path: Path
    directory: Path
    kind: str
    history: dict[int, dict[str, float]]
    config: dict[str, Any] = field(default_factory=dict)
    environment: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def method(self) -> str:
        """The paper's name of the method; the run's own name where it has none."""
        return method_of_config(self.config) or method_of_name(self.name) or self.name

    @property
    def judge(self) -> str:
        """Who scored its answers (docs/judges.md); "not recorded" without a configuration."""
        return judge_of_config(self.config) or "not recorded"

    @property
    def last_step(self) -> int:
        """The last step in the log."""
        return max(self.history)

    @property
    def planned_steps(self) -> int | None:
        """trainer.total_training_steps; None where the configuration is not known."""
        return self.config.get("trainer", {}).get("total_training_steps")

    @property
    def stopped_early(self) -> bool:
        """Whether steps are missing at the end. A run that only validates plans none."""
        if self.config.get("trainer", {}).get("val_only"):
            return False
        return self.planned_steps is not None and self.last_step < self.planned_steps

    def series(self, metric: str) -> list[tuple[int, float]]:
        """(step, value) of a metric, in order."""
        return [(step, data[metric]) for step, data in self.history.items() if metric in data]

    def accuracies(self) -> dict[str, list[tuple[int, float]]]:
        """Benchmark -> (step, Mean@k) in order; two spellings of one benchmark are refused.

        Read from val-core/<data_source>/acc/mean@k. A file that holds each problem k times gives mean@1,
        whose mean over its rows is Mean@k all the same.

        Raises:
            ResultsError: one benchmark under two data_source spellings at the same step.
        """
        found: dict[str, list[tuple[int, float]]] = {}
        for step, data in self.history.items():
            for metric, value in data.items():
                if not metric.startswith("val-core/") or "/acc/mean@" not in metric:
                    continue
                data_source = metric.removeprefix("val-core/").rpartition("/acc/mean@")[0]
                points = found.setdefault(benchmark_of(data_source), [])
                if points and points[-1][0] == step:
                    raise ResultsError(
                        f"{self.path}, step {step}: {metric} is a second value of {benchmark_of(data_source)}; "
                        "evaluate one file of each benchmark, with one data_source spelling"
                    )
                points.append((step, value))
        return found


def load_runs(paths: Iterable[Path], notes: list[str]) -> list[Run]:
    """The runs in `paths`: run directories, folders of them, metrics files, W&B and TensorBoard logs.

    Raises:
        ResultsError: a path holds no run, or one that cannot be read.
    """
    runs: list[Run] = []
    seen: set[Path] = set()
    for path in paths:
        found = find_logs(path)
        if not found:
            raise ResultsError(
                f"{path}: no run there; give a directory with {METRICS}, a W&B offline directory, a .wandb file "
                "or TensorBoard event files"
            )
        for log in found:
            if log.resolve() in seen:
                notes.append(f"{log}: named twice, counted once")
                continue
            seen.add(log.resolve())
            run = load_run(log)
            twin = next((other for other in runs if _same(run, other)), None)
            if not run.history:
                notes.append(f"{log}: no step in it yet; left out")
            elif twin:
                notes.append(f"{log}: the same numbers as {twin.path}; counted once")
            else:
                runs.append(run)
    if not runs:
        raise ResultsError("; ".join(notes))
    runs = join_resumed(runs)
    tell_names_apart(runs, notes)
    return runs


def _same(run: Run, other: Run) -> bool:
    return run.history == other.history and settings(run.config, seeds=True) == settings(other.config, seeds=True)


def find_logs(path: Path) -> list[Path]:
    """What to read in `path`: the log of one run, or those of the directories in it."""
    if not path.exists():
        raise ResultsError(f"{path}: no such file or directory")
    if path.is_file():
        return [path]
    if (path / METRICS).is_file() or (path / EARLIER).is_file():
        return [path / METRICS]
    if wandb := sorted(path.glob("*.wandb")):
        return wandb
    if event_files(path):
        return [path]
    children = [child for child in sorted(path.iterdir()) if child.is_dir() and not child.is_symlink()]
    return [log for child in children for log in find_logs(child)]


def load_run(path: Path) -> Run:
    """Read one run; the kind of log follows from the file's name."""
    notes: list[str] = []
    records: Iterable[Record]
    directory = path if path.is_dir() else path.parent
    name, config = None, {}
    if path.is_dir() or path.match(PATTERN):
        kind, records = "tensorboard", read_events(path)
    elif path.suffix == ".wandb":
        kind, wandb = "wandb", read_wandb(path, notes)
        name, config, records = wandb.name, wandb.config, wandb.records
    elif path.suffix == ".jsonl":
        kind = METRICS
        files = [directory / EARLIER, path] if path.name == METRICS else [path]
        records = (record for file in files if file.is_file() for record in read_jsonl(file, notes))
    else:
        raise ResultsError(f"{path}: unknown kind of file; known are *.jsonl, *.wandb and {PATTERN}")
    history = assemble(records, notes)
    config = config or _beside(directory, "config.yaml")
    name = name or config.get("trainer", {}).get("experiment_name") or _name_of(path, directory)
    run = Run(name, path, directory, kind, history, config, _beside(directory, "environment.json"), notes)
    if not config:
        notes.append("no config.yaml beside it: the method is read from the name, the planned steps are not known")
    return run


def _name_of(path: Path, directory: Path) -> str:
    return path.stem if path.suffix == ".jsonl" and path.name != METRICS else directory.resolve().name


def _beside(directory: Path, name: str) -> dict[str, Any]:
    """A YAML or JSON file in the directory, or in the one above it; {} where there is none."""
    for folder in (directory, directory.parent):
        file = folder / name
        if file.is_file():
            try:
                return yaml.safe_load(file.read_text()) or {}  # JSON is YAML
            except yaml.YAMLError as error:
                raise ResultsError(f"{file}: cannot be read as YAML: {error}; restore it or remove it") from error
    return {}


def join_resumed(runs: list[Run]) -> list[Run]:
    """Put a run and its continuation together: W&B writes one directory for each start.

    A continuation has the name of an earlier run, the same settings but for how it is resumed, and
    begins after step 1.
    """
    joined: list[Run] = []
    for run in runs:
        first = next((r for r in joined if r.kind == run.kind == "wandb" and r.name == run.name), None)
        if first is None or min(run.history) <= 1 or settings(first.config) != settings(run.config):
            joined.append(run)
            continue
        notes = [*first.notes, *run.notes, f"continued in {run.path}"]
        first.history = assemble([*first.history.items(), *run.history.items()], notes)
        first.notes = notes
    return joined


def tell_names_apart(runs: list[Run], notes: list[str]) -> None:
    """Give runs of one name the names of their directories as well, and say so."""
    for name, count in Counter(run.name for run in runs).items():
        if count > 1:
            notes.append(f"{count} runs are called {name}; they are told apart by their directories")
            for run in runs:
                if run.name == name:
                    run.name = f"{name} [{run.directory}]"


# Settings that do not make another experiment: where it ran, what it was called, what it printed.
_INCIDENTAL = (
    "ray_kwargs",
    "global_profiler",
    "rpg.env",
    "rpg.preload",
    "rpg.console",
    "rpg.data_dir",
    "rpg.poll_interval",
    "actor_rollout_ref.rollout.trace",
    "rpg.script",
    "reward.custom_reward_function.reward_kwargs.judge",  # as `judge`, which older configurations have too
    "rpg.stall_limit",
    "rpg.time_limit",
    "trainer.default_local_dir",
    "trainer.experiment_name",
    "trainer.logger",
    "trainer.project_name",
    "trainer.resume_from_path",
    "trainer.resume_mode",
    "trainer.rollout_data_dir",
    "trainer.save_freq",
    "trainer.validation_data_dir",
)


def flatten(config: Any, prefix: str = "") -> dict[str, Any]:
    """Dotted key -> value of a nested configuration; lists are values."""
    if not isinstance(config, dict):
        return {prefix: config}
    flat: dict[str, Any] = {}
    for key, value in config.items():
        flat.update(flatten(value, f"{prefix}.{key}" if prefix else str(key)))
    return flat


def is_seed(key: str) -> bool:
    """Whether a dotted key is a seed."""
    return key.endswith("seed")


def settings(config: dict[str, Any], seeds: bool = False) -> dict[str, str]:
    """What makes an experiment another one: every setting but seeds (unless asked for) and incidentals.

    Further ones: `judge`, who scored it, and for an evaluation alone `checkpoint`, what it evaluates.
    """
    flat = flatten(config)
    kept = {
        key: repr(value)
        for key, value in flat.items()
        if (seeds or not is_seed(key)) and not any(key == name or key.startswith(f"{name}.") for name in _INCIDENTAL)
    }
    if config:
        kept["judge"] = judge_of_config(config) or ""
    if flat.get("trainer.val_only"):
        evaluated = {"disable": "untrained", "resume_path": Path(flat.get("trainer.resume_from_path") or "").name}
        kept["checkpoint"] = evaluated.get(str(flat.get("trainer.resume_mode")), "latest")
    return kept
