"""RunConfig: the one configuration of a run, which checks, fingerprint, dry run, job and trainer read."""

import copy
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from rpg.config.settings import Settings, value_at
from rpg.files.integrity import Choice, newest_complete


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


def below(key: str, sections: Iterable[str]) -> bool:
    """Return whether a dotted key is one of these names or below one."""
    return any(key == section or key.startswith(f"{section}.") for section in sections)


def logs_to(loggers: str | list[str], name: str) -> bool:
    """Return whether a logger is among the values of trainer.logger."""
    return name in ([loggers] if isinstance(loggers, str) else loggers)


@dataclass(frozen=True)
class RunConfig:
    """A run's resolved configuration.

    Attributes:
        config: nested dictionaries of YAML types; not to be changed.
        choice: the result of newest_complete for trainer.resume_mode=auto, if `freeze` has looked.
        notes: what the user should know about it, such as overrides that contradict the script's name.
    """

    config: dict[str, Any]
    choice: Choice | None = None
    notes: tuple[str, ...] = ()

    def get(self, key: str, default: Any = None) -> Any:
        """Return the value at a dotted key, or `default` if there is none."""
        return value_at(self.config, key, default)

    @cached_property
    def settings(self) -> Settings:
        """The typed view; only of a configuration whose types are valid."""
        return Settings.of(self.config)

    def copy(self) -> dict[str, Any]:
        """Return a copy of the configuration."""
        return copy.deepcopy(self.config)

    def yaml(self) -> str:
        """Return the configuration as YAML."""
        from omegaconf import OmegaConf

        return OmegaConf.to_yaml(OmegaConf.create(self.config))

    @property
    def cluster(self) -> bool:
        """Whether the run uses the devices of a running Ray cluster."""
        return bool(os.environ.get("RAY_ADDRESS"))

    @property
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

    @property
    def directory(self) -> Path:
        """The run's directory."""
        return Path(self.get("trainer.default_local_dir")).expanduser()

    @property
    def resumes_by_choice(self) -> bool:
        """Whether the run resumes from the newest complete checkpoint of its directory."""
        return self.choice is not None or self.get("trainer.resume_mode") == "auto"

    @cached_property
    def newest_checkpoint(self) -> Choice:
        """The checkpoint that trainer.resume_mode=auto resumes from; cached, because all of its bytes are read."""
        return self.choice or newest_complete(self.directory)

    def files(self, split: Literal["train", "val"]) -> list[str]:
        """Return the configured parquet files of a split."""
        value = self.get(f"data.{split}_files")
        return [value] if isinstance(value, str) else list(value or [])
