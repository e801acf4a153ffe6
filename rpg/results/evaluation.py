"""The command that validates a checkpoint through a launch script, with the settings of its run's config.yaml."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from rpg.config.compose import CONFIG_DIR, compose_config, of_script, parse
from rpg.config.keys import FUNCTION, KEYS, row_of
from rpg.config.run_config import RunConfig
from rpg.config.user_code import JUDGE_GROUP
from rpg.diagnostics import ABSENT
from rpg.dotted import below, leaves, value_at
from rpg.files.atomic import CONFIG
from rpg.overrides import key_of, override
from rpg.registry.recipe import Script
from rpg.results.runs import read_mapping


def is_taken_over(key: str) -> bool:
    """Return whether an evaluation takes a setting from the run: by its role, or because its row says so."""
    return (row := row_of(key)).role in ("defines", "input") or row.evaluation


def overrides_of_run(script: Script, config: dict[str, Any], user_overrides: list[str]) -> list[str]:
    """Return the overrides by which the script gets a run's settings, before those that the user gave.

    Settings of a training are those of its fingerprint. A setting that the script derives from another, such as a
    length from data.max_response_length, is set only if it still differs, so that `user_overrides` may change its
    source.

    Raises:
        BadSetting or Refused: the script cannot be composed.
    """
    wanted = {key: value for key, value in leaves(config) if is_taken_over(key)}
    plain = OmegaConf.to_container(compose_config([override(KEYS["script"], script.name), *script.overrides]))
    derived = {key for key, value in leaves(plain) if isinstance(value, str) and "${" in value}
    made = _changes(of_script(script, []), {key: value for key, value in wanted.items() if key not in derived})
    options = KEYS["reward_options"]
    has = value_at(config, options) or {}
    made += [f"~{options}.{key}" for key in value_at(plain, options) or {} if key not in has]
    made += _changes(of_script(script, made), wanted)
    keys = {key_of(text) for text in user_overrides} | set(_set_by_groups(user_overrides))
    if any(below(key, [FUNCTION, JUDGE_GROUP]) for key in keys):  # another reward function has other keywords
        keys.add(FUNCTION)
    return [text for text in made if not below(key_of(text), keys)]


def _set_by_groups(user_overrides: list[str]) -> Iterator[str]:
    """Yield the keys that the chosen entries of Hydra groups set (context=8k), which win over the run's values."""
    for parsed in map(parse, user_overrides):
        file = CONFIG_DIR / parsed.key_or_group / f"{parsed.value()}.yaml"
        if file.is_file():
            yield from (key for key, _ in leaves(read_mapping(file)))


def _changes(composed: RunConfig, wanted: dict[str, Any]) -> list[str]:
    """Return overrides for the values that a composed configuration lacks or has otherwise."""
    changes = []
    for key, value in wanted.items():
        current = composed.get(key, ABSENT)
        if current != value:
            changes.append(("++" if current is ABSENT else "") + override(key, value))
    return changes


def command_of(script: Script, checkpoint: Path | None, out: Path, overrides: list[str]) -> list[str]:
    """Return the command of the script's run with overrides to validate once and stop; `overrides` win.

    Raises:
        ResultsError: the configuration of the checkpoint's run cannot be read.
        BadSetting or Refused: a setting that a configuration cannot hold, or a script that cannot be composed.
    """
    command = [*script.command, f"{KEYS['val_only']}=True", f"{KEYS['val_before_train']}=True"]
    command.append(override(KEYS["directory"], out.absolute()))
    if checkpoint is None:
        return [*command, f"{KEYS['resume_mode']}=disable", *overrides]
    # the script's preflight verifies the checkpoint's contents
    command += [f"{KEYS['resume_mode']}=resume_path", override(KEYS["resume_path"], checkpoint.absolute())]
    command.append(f"{KEYS['load_contents']}=[model]")  # no optimizer is needed
    config = checkpoint.parent / CONFIG
    if not config.is_file():
        print(f"note: {config} is missing: the settings are the script's, not the run's", file=sys.stderr)
        return [*command, *overrides]
    return [*command, *overrides_of_run(script, read_mapping(config), overrides), *overrides]
