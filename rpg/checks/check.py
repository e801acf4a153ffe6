"""What a check is: what it asks of a run, and what it may read."""

import copy
import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from rpg.data.diagnostics import ABSENT as ABSENT
from rpg.data.diagnostics import Diagnostic as Diagnostic
from rpg.data.diagnostics import Level as Level
from rpg.data.diagnostics import shown as shown
from rpg.files.integrity import Choice, newest_complete

# cheap: without importing verl, a second in all; verl: asks verl itself, whose import takes seconds; thorough: reads
# all rows, loads the tokenizer, starts processes.
Cost = Literal["cheap", "verl", "thorough"]
# What an answer depends on. A run that is submitted to a cluster has its files and machine there.
Subject = Literal["settings", "files", "machine"]
CHEAP_OR_VERL: tuple[Cost, ...] = ("cheap", "verl")  # those that a run passes before Ray starts
MARKS = {"ok": "ok  ", "warning": "warn", "error": "FAIL", "skip": "skip"}


def leaves(value: Any, key: str = "", *, into_lists: bool = False) -> Iterator[tuple[str, Any]]:
    """Every dotted key of nested dictionaries with its value. into_lists: elements by their number."""
    if isinstance(value, dict) and value:
        named = value.items()
    elif isinstance(value, list) and into_lists:
        named = enumerate(value)
    else:
        yield key, value
        return
    for name, inner in named:
        yield from leaves(inner, f"{key}.{name}" if key else str(name), into_lists=into_lists)


class Refused(ValueError):
    """The run cannot work; diagnostics says why, each with its remedy."""

    def __init__(self, diagnostics: list[Diagnostic]):
        super().__init__("\n".join(map(str, diagnostics)))
        self.diagnostics = diagnostics


class WrongByItself(Exception):
    """A check reads a setting whose type or range is wrong, of which the check of types tells."""


def below(key: str, sections: Iterable[str]) -> bool:
    """Whether a dotted key is one of these names, or below one."""
    return any(key == section or key.startswith(f"{section}.") for section in sections)


class Run:
    """The configuration of a run, without interpolations: what checks, fingerprint and verl get. Not to be changed.

    Attributes:
        config: nested dictionaries, as YAML would hold them.
        wrong: keys whose type or range is known to be wrong; `get` raises WrongByItself for them.
    """

    def __init__(self, config: dict[str, Any], choice: Choice | None = None):
        """choice: the checkpoints that were looked at for trainer.resume_mode=auto, where they were."""
        self.config = config
        self.wrong: set[str] = set()
        if choice is not None:
            self.newest_checkpoint = choice
        self.resumes_by_choice = choice is not None or self.get("trainer.resume_mode") == "auto"

    def get(self, key: str, default: Any = None) -> Any:
        """The value at a dotted key, default where there is none."""
        if below(key, self.wrong) or any(below(wrong, [key]) for wrong in self.wrong):
            raise WrongByItself(key)
        value: Any = self.config
        for name in key.split("."):
            if not isinstance(value, dict) or name not in value:
                return default
            value = value[name]
        return value

    def copy(self) -> dict[str, Any]:
        """A configuration to be changed."""
        return copy.deepcopy(self.config)

    def yaml(self) -> str:
        """The configuration as YAML."""
        from omegaconf import OmegaConf

        return OmegaConf.to_yaml(OmegaConf.create(self.config))

    @cached_property
    def cluster(self) -> bool:
        """Whether the run's devices are those of a running Ray."""
        return bool(os.environ.get("RAY_ADDRESS"))

    @cached_property
    def logical(self) -> bool:
        """Whether its GPUs are Ray's logical ones: those of a CPU, or as many as Ray is told."""
        return self.get("trainer.device") == "cpu" or self.get("ray_kwargs.ray_init.num_gpus") is not None

    @property
    def devices(self) -> int:
        """GPUs of the run, all nodes together."""
        return self.get("trainer.n_gpus_per_node") * self.get("trainer.nnodes")

    @property
    def model(self) -> Path:
        """Where the model would be if it were a directory."""
        return Path(str(self.get("actor_rollout_ref.model.path"))).expanduser()

    @cached_property
    def newest_checkpoint(self) -> Choice:
        """What trainer.resume_mode=auto goes on from; looked at once, as all of its bytes are read."""
        return newest_complete(Path(self.get("trainer.default_local_dir")).expanduser())

    def files(self, split: Literal["train", "val"]) -> list[str]:
        """The parquet files of a split, as they are named."""
        value = self.get(f"data.{split}_files")
        return [value] if isinstance(value, str) else list(value or [])


@dataclass(frozen=True)
class Check:
    """One question.

    Attributes:
        name: short and unique.
        rule: what must hold, one sentence.
        ask: yields what it finds; nothing where all is well.
    """

    name: str
    rule: str
    cost: Cost
    subject: Subject
    ask: Callable[[Run], Iterator[Diagnostic]] = field(repr=False)

    def __call__(self, run: Run) -> Iterator[Diagnostic]:
        """What it finds in a run."""
        return self.ask(run)


def check(
    name: str, rule: str, cost: Cost = "cheap", subject: Subject = "settings"
) -> Callable[[Callable[[Run], Iterator[Diagnostic]]], Check]:
    """Make a Check of a function; the arguments are Check's. preflight.py collects those of each module."""
    return lambda ask: Check(name, rule, cost, subject, ask)
