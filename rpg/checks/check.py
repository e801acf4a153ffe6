"""The types Check and Run: what a check asks and what it may read."""

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

# cheap: does not import verl, a second in total; verl: calls verl, whose import takes seconds; thorough: reads all
# rows, loads the tokenizer, starts processes
Cost = Literal["cheap", "verl", "thorough"]
# what a check depends on; files and machine of a submitted run are the cluster's
Subject = Literal["settings", "files", "machine"]
CHEAP_OR_VERL: tuple[Cost, ...] = ("cheap", "verl")  # costs of the checks that a run passes before Ray starts
MARKS = {"ok": "ok  ", "warning": "warn", "error": "FAIL", "skip": "skip"}


def leaves(value: Any, key: str = "", *, into_lists: bool = False) -> Iterator[tuple[str, Any]]:
    """Yield every dotted key of nested dictionaries with its value. into_lists: also list elements, by index."""
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
    """The run cannot work; `diagnostics` has the reasons and remedies."""

    def __init__(self, diagnostics: list[Diagnostic]):
        super().__init__("\n".join(map(str, diagnostics)))
        self.diagnostics = diagnostics


class WrongByItself(Exception):
    """A check reads a setting whose type or range is wrong; the check of types reports it."""


def below(key: str, sections: Iterable[str]) -> bool:
    """Return whether a dotted key is one of these names or below one."""
    return any(key == section or key.startswith(f"{section}.") for section in sections)


class Run:
    """A run's resolved configuration, as checks, fingerprint and verl get it. Read-only.

    Attributes:
        config: nested dictionaries of YAML types.
        wrong: keys with a wrong type or range; `get` raises WrongByItself for them.
    """

    def __init__(self, config: dict[str, Any], choice: Choice | None = None):
        """choice: the result of newest_complete for trainer.resume_mode=auto, if it is known already."""
        self.config = config
        self.wrong: set[str] = set()
        if choice is not None:
            self.newest_checkpoint = choice
        self.resumes_by_choice = choice is not None or self.get("trainer.resume_mode") == "auto"

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value at a dotted key, or `default` if there is none."""
        if below(key, self.wrong) or any(below(wrong, [key]) for wrong in self.wrong):
            raise WrongByItself(key)
        value: Any = self.config
        for name in key.split("."):
            if not isinstance(value, dict) or name not in value:
                return default
            value = value[name]
        return value

    def copy(self) -> dict[str, Any]:
        """Return a copy of the configuration."""
        return copy.deepcopy(self.config)

    def yaml(self) -> str:
        """Return the configuration as YAML."""
        from omegaconf import OmegaConf

        return OmegaConf.to_yaml(OmegaConf.create(self.config))

    @cached_property
    def cluster(self) -> bool:
        """Whether the run uses the devices of a running Ray cluster."""
        return bool(os.environ.get("RAY_ADDRESS"))

    @cached_property
    def logical(self) -> bool:
        """Whether its GPUs are logical resources of Ray: on a CPU, or with num_gpus set."""
        return self.get("trainer.device") == "cpu" or self.get("ray_kwargs.ray_init.num_gpus") is not None

    @property
    def devices(self) -> int:
        """Number of the run's GPUs on all nodes."""
        return self.get("trainer.n_gpus_per_node") * self.get("trainer.nnodes")

    @property
    def model(self) -> Path:
        """The model's path as a local directory, which need not exist."""
        return Path(str(self.get("actor_rollout_ref.model.path"))).expanduser()

    @cached_property
    def newest_checkpoint(self) -> Choice:
        """The checkpoint that trainer.resume_mode=auto resumes from; cached, because all of its bytes are read."""
        return newest_complete(Path(self.get("trainer.default_local_dir")).expanduser())

    def files(self, split: Literal["train", "val"]) -> list[str]:
        """Return the configured parquet files of a split."""
        value = self.get(f"data.{split}_files")
        return [value] if isinstance(value, str) else list(value or [])


@dataclass(frozen=True)
class Check:
    """One check.

    Attributes:
        name: short and unique.
        rule: the condition that must hold, one sentence.
        ask: yields diagnostics; none if the rule holds.
    """

    name: str
    rule: str
    cost: Cost
    subject: Subject
    ask: Callable[[Run], Iterator[Diagnostic]] = field(repr=False)

    def __call__(self, run: Run) -> Iterator[Diagnostic]:
        """Return the check's findings for a run."""
        return self.ask(run)


def check(
    name: str, rule: str, cost: Cost = "cheap", subject: Subject = "settings"
) -> Callable[[Callable[[Run], Iterator[Diagnostic]]], Check]:
    """Decorate a function as a Check with these fields; preflight.py collects the checks of each module."""
    return lambda ask: Check(name, rule, cost, subject, ask)
