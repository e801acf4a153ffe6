"""The toy run: its data, a fake model directory, its configuration with changes, and the preflight on it."""

import copy
import functools
import json
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from rpg.config.compose import compose_config, resolve
from rpg.config.run_config import RunConfig
from rpg.data.parquet import write
from rpg.dotted import put
from rpg.toy.sums import toy_problems

CPU = ["profile=cpu", "model=toy", "dataset=toy", "optim=toy", "trainer.experiment_name=t"]


def make_toy(folder: Path) -> Path:
    """64 training rows, 8 test rows, and the files of a model directory."""
    write({folder / "train.parquet": list(toy_problems("train", seed=0, count=64))})
    write({folder / "test.parquet": list(toy_problems("test", seed=0, count=8))})
    model = folder / "model"
    model.mkdir()
    (model / "config.json").write_text(json.dumps({"model_type": "llama"}))
    tokenizer = Tokenizer(WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = Whitespace()
    tokenizer.save(str(model / "tokenizer.json"))
    template = "{% for m in messages %}<{{ m.role }}> {{ m.content }} {% endfor %}"
    (model / "chat_template.jinja").write_text(template)
    (model / "model.safetensors").write_bytes(b"weights")
    return folder


def overrides(toy: Path) -> list[str]:
    """Return the overrides for the recipe's toy run in this directory."""
    return [
        *CPU,
        f"data.train_files={toy / 'train.parquet'}",
        f"data.val_files={toy / 'test.parquet'}",
        f"actor_rollout_ref.model.path={toy / 'model'}",
        f"trainer.default_local_dir={toy / 'run'}",
    ]


@functools.cache
def composed(*chosen: str) -> DictConfig:
    """Return the toy run with these group choices; composing takes half a second."""
    return compose_config([*CPU, *chosen])[0]


@functools.cache
def _resolved() -> dict[str, Any]:
    return resolve(composed())


def run_config(changes: dict[str, Any] | None = None) -> RunConfig:
    """Return the toy run with these values by dotted key, for tests of what reads a configuration."""
    config = copy.deepcopy(_resolved())
    for key, value in (changes or {}).items():
        put(config, key, value)
    return RunConfig(config)


def small_run(directory: Path, **changes: Any) -> RunConfig:
    """Return a run of four steps in this directory; changes: values by key, with __ for the dots."""
    made = {
        "trainer.default_local_dir": str(directory), "trainer.total_training_steps": 4, "data.train_files": ["/none"],
        "data.seed": 1, "actor_rollout_ref.model.path": "/none", "actor_rollout_ref.rollout.n": 4,
    }  # fmt: skip
    return run_config(made | {key.replace("__", "."): value for key, value in changes.items()})


def run_of(toy: Path, *more: str) -> RunConfig:
    """Return the toy run with further overrides."""
    parsed = OverridesParser.create().parse_overrides([*overrides(toy)[len(CPU) :], *more])
    groups = [override.input_line for override in parsed if "." not in override.key_or_group]
    config = copy.deepcopy(composed(*groups))  # type: ignore[misc]
    for override in parsed:
        if override.input_line not in groups:
            OmegaConf.update(config, override.key_or_group, override.value(), force_add=override.is_add())
    return RunConfig(resolve(config))
