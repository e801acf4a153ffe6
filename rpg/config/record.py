"""What a run is: config.yaml, and environment.json with hashes of the files that the configuration names.

A resume compares both with those that the run's directory holds.
"""

import hashlib
import importlib.util
import json
import os
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Any

import yaml

from rpg.config.run_config import RunConfig
from rpg.config.verl_keys import EXTERNAL_LIB, MODEL, OPTIM, PATHS, RESUMABLE, REWARD_FILE, ROLLOUT
from rpg.diagnostics import ABSENT, Diagnostic, Refused, shown
from rpg.dotted import below, leaves
from rpg.files.atomic import CONFIG, ENVIRONMENT
from rpg.rewards import PACKAGE

CONTENTS = "contents"  # of environment.json: key -> hashes of the files that it names
# files of the user's that decide what is trained
CODE = (
    f"{ROLLOUT}.agent.agent_loop_config_path", "data.custom_cls.path", "data.tool_config_path",
    "data.function_tool_path", "reward.reward_manager.module.path",
)  # fmt: skip
TOKENIZER_FILES = ("*token*.json", "chat_template*", "vocab.*", "merges.txt", "*.model")
SAMPLE = 2**20  # bytes at either end of a weights file; reading all of a large model takes minutes


def contents(run: RunConfig) -> dict[str, Any]:
    """Return hashes of the data, the model and the user's code, by the keys that name them."""
    made: dict[str, Any] = {f"data.{split}_files": hashes(run.files(split)) for split in ("train", "val")}
    architecture, tokens = (run[f"{MODEL}.{name}"] or run.model for name in ("hf_config_path", "tokenizer_path"))
    config, tokenizer = Path(architecture).expanduser() / "config.json", Path(tokens).expanduser()
    made[f"{MODEL}.path"] = {
        "config": _content(config) if config.is_file() else str(architecture),  # a hub name
        "weights": _ends([*run.model.glob("*.safetensors"), *run.model.glob("*.bin")]),
        "tokenizer": _ends({file for pattern in TOKENIZER_FILES for file in tokenizer.glob(pattern)}) or str(tokens),
    }
    code = {key: hashes(filter(None, [run[key]])) for key in CODE}
    code[REWARD_FILE] = code_hashes([run.own_reward])
    code[EXTERNAL_LIB] = code_hashes(run.rpg.external_lib)
    return made | {key: found for key, found in code.items() if found}


def code_hashes(names: Iterable[str | None]) -> list[str]:
    """Return the hash of each file, pkg://MODULE or module that has a file here."""
    return hashes(filter(None, map(source, filter(None, names))))


def source(name: str) -> Path | None:
    """Return the file of a file, pkg://MODULE or module; None without one."""
    if Path(name).is_file():
        return Path(name)
    try:
        spec = importlib.util.find_spec(name.removeprefix(PACKAGE))  # imports its parents but not the module
    except (ImportError, ValueError):
        return None
    return Path(spec.origin) if spec and spec.has_location and spec.origin else None


def hashes(names: Iterable[str | Path]) -> list[str]:
    """Return the hash of each file; of one that is not on this machine, its name."""
    return [_content(file) if (file := Path(name).expanduser()).is_file() else str(name) for name in names]


def _content(file: Path) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _ends(files: Iterable[Path]) -> str | None:
    """Return a hash of names, sizes, and both ends of files; None without files."""
    known, files = hashlib.sha256(), sorted(filter(Path.is_file, files))
    for file in files:
        with open(file, "rb") as stream:
            size = stream.seek(0, os.SEEK_END)
            known.update(f"{file.name} {size}\n".encode())
            for start in (0, max(0, size - SAMPLE)):
                stream.seek(start)
                known.update(stream.read(SAMPLE))
    return known.hexdigest() if files else None


def differences(before: dict[str, Any], now: dict[str, Any], ignored: Iterable[str] = ()) -> dict[str, tuple[Any, Any]]:
    """Return the keys in which two configurations differ, without those at or below `ignored`: key -> both values."""
    values = [dict(leaves(config)) for config in (before, now)]
    keys = sorted({key for config in values for key in config if not below(key, ignored)})
    pairs = {key: (values[0].get(key, ABSENT), values[1].get(key, ABSENT)) for key in keys}
    return {key: pair for key, pair in pairs.items() if pair[0] != pair[1]}


def recorded(directory: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return config.yaml and environment.json of a run's directory, {} for a file that is not there.

    Raises Refused for a file that cannot be read.
    """
    read = []
    for name, load in ((CONFIG, partial(yaml.load, Loader=yaml.CSafeLoader)), (ENVIRONMENT, json.loads)):
        file = directory / name
        try:
            read.append(dict(load(file.read_bytes())) if file.is_file() else {})
        except (OSError, ValueError, TypeError, RecursionError, yaml.YAMLError) as error:
            remedy = f"restore it, or remove it if {directory} holds the same training"
            raise Refused([Diagnostic(str(file), ABSENT, f"cannot be read: {error}", remedy)]) from error
    return read[0], read[1]


def changed(directory: Path, run: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Return what differs from the run in a directory and decides what is trained; {} without a run."""
    config, environment = recorded(directory)
    if not config:
        return {}
    ignored = [*RESUMABLE, *PATHS]  # files by their contents
    if run[f"{OPTIM}.lr_scheduler_type"] not in (None, "constant") or (run[f"{OPTIM}.lr_warmup_steps_ratio"] or 0) > 0:
        ignored.remove("trainer.total_training_steps")  # the length of the learning rate's schedule
        if run["trainer.total_training_steps"] is None:
            ignored.remove("trainer.total_epochs")
    files = differences(environment.get(CONTENTS, {}), json.loads(json.dumps(contents(run))), ["data.val_files"])
    return differences(config, run.config, ignored) | {f"{key} (content)": pair for key, pair in files.items()}


def refuse_another(directory: Path, run: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Return the differing settings if the run may resume with them (rpg.resume_changed); {} if there are none.

    A run with trainer.resume_mode=disable may always start.

    Raises:
        Refused: the directory holds a run with other settings.
    """
    if run["trainer.resume_mode"] == "disable" or not (different := changed(directory, run)):
        return {}
    if run.rpg.resume_changed:
        return different
    ways = "choose another trainer.experiment_name or CKPTS_DIR, or accept it with rpg.resume_changed=true"
    found = []
    for key, (before, now) in different.items():
        named = key.removesuffix(" (content)")
        message = f"the run in {directory} has {shown(before)}"
        if named != key:
            now = run[named] or run[named.rpartition(".")[0]] or ABSENT  # of a model: its part
            message = f"changed since the run in {directory} started"
        found.append(Diagnostic(named, now, message, ways))
    raise Refused(found)
