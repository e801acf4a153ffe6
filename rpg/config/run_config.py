"""RunConfig: the one configuration of a run, which checks, dry run, job and trainer read.

Its constructor checks types and ranges, so that an invalid one cannot exist. Does not import verl.
"""

import os
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from rpg.config import types
from rpg.config.section import Section
from rpg.config.verl_keys import ACTOR, MODEL, REWARD_FILE, ROLLOUT, SEPARATE
from rpg.diagnostics import Diagnostic, Level, Refused, shown
from rpg.dotted import value_at
from rpg.files.integrity import Choice


def logs_to(loggers: str | list[str], name: str) -> bool:
    """Return whether a logger is among the values of trainer.logger."""
    return name in ([loggers] if isinstance(loggers, str) else loggers)


@dataclass(frozen=True)
class RunConfig:
    """A run's resolved configuration, whose types and ranges are valid. `run["trainer.save_freq"]` is a key's value.

    Attributes:
        config: nested dictionaries of YAML types; not to be changed.
        choice: the result of newest_complete for trainer.resume_mode=auto, if `freeze` has looked.

    Raises:
        Refused: a setting that nothing reads, or of a type or range that verl or the plugin does not take.
    """

    config: dict[str, Any]
    choice: Choice | None = None

    def __post_init__(self) -> None:
        if errors := list(types.errors(self.config)):
            raise Refused(errors)

    def __getitem__(self, key: str) -> Any:
        """Return the value at a dotted key, or None if there is none."""
        return value_at(self.config, key)

    @cached_property
    def rpg(self) -> Section:
        """The section rpg:."""
        return Section(**self.config["rpg"])

    def yaml(self) -> str:
        """Return the configuration as YAML."""
        from omegaconf import OmegaConf

        return OmegaConf.to_yaml(OmegaConf.create(self.config))

    def shown(self, key: str) -> str:
        """Return `key=value`, as in an override."""
        return f"{key}={shown(self[key])}"

    def error(self, key: str, message: str, remedy: str = "", level: Level = "error") -> Diagnostic:
        """Return the diagnostic of a key whose value cannot work."""
        return Diagnostic(key, self[key], message, remedy, level)

    @property
    def name(self) -> str:
        """The run's name."""
        return self["trainer.experiment_name"]

    @property
    def cluster(self) -> bool:
        """Whether the run uses the devices of a running Ray cluster."""
        return bool(os.environ.get("RAY_ADDRESS"))

    @property
    def devices(self) -> int:
        """Number of the trainer's GPUs on all nodes."""
        return self["trainer.n_gpus_per_node"] * self["trainer.nnodes"]

    @property
    def rollout_devices(self) -> int:
        """Number of the GPUs of separate rollouts on all nodes."""
        separate = self["trainer.v1.trainer_mode"] == SEPARATE
        return self[f"{ROLLOUT}.n_gpus_per_node"] * self[f"{ROLLOUT}.nnodes"] if separate else 0

    @property
    def length(self) -> int:
        """Tokens of the longest prompt and response together."""
        return self["data.max_prompt_length"] + self["data.max_response_length"]

    @property
    def has_reference_model(self) -> bool:
        """Whether verl computes log-probs of a reference."""
        return self.rpg.reference.mode != "old" or self[f"{ACTOR}.use_kl_loss"] or self["algorithm.use_kl_in_reward"]

    @property
    def own_reward(self) -> str | None:
        """The user's reward function, a file or pkg://MODULE; None: rpg.rewards scores."""
        return self[REWARD_FILE]

    @property
    def model(self) -> Path:
        """The model's path as a local directory, which need not exist."""
        return Path(self[f"{MODEL}.path"]).expanduser()

    @property
    def directory(self) -> Path:
        """The run's directory."""
        return Path(self["trainer.default_local_dir"]).expanduser()

    @property
    def resumes_by_choice(self) -> bool:
        """Whether the run resumes from the newest complete checkpoint of its directory."""
        return self.choice is not None or self["trainer.resume_mode"] == "auto"

    def files(self, split: Literal["train", "val"]) -> list[str]:
        """Return the configured parquet files of a split."""
        value = self[f"data.{split}_files"]
        return [value] if isinstance(value, str) else list(value)
