"""The fingerprint of a training: the settings that must not change when a run resumes.

It has all settings whose role is "defines" (keys.py), and is stored as fingerprint.json in the run's directory.
"""

import hashlib
import json
import os
import re
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from rpg.config.keys import KEYS, ROWS, row_of
from rpg.config.run_config import RunConfig
from rpg.config.user_code import is_ours, source
from rpg.diagnostics import ABSENT, Diagnostic, Refused, shown
from rpg.dotted import below, leaves
from rpg.files.atomic import FINGERPRINT as NAME
from rpg.files.atomic import append_record, write_whole
from rpg.rewards.user_function import PACKAGE

HISTORY = "history.jsonl"
CODE = [row.key for row in ROWS.values() if row.code]
OFF = {row.key: row.switch for row in ROWS.values() if row.switch}
MODEL_FILE, WEIGHTS, TOKENIZER = (f"{KEYS['model']} ({part})" for part in ("config.json", "weights", "tokenizer"))
TOKENIZER_FILES = ("*token*.json", "chat_template*", "vocab.*", "merges.txt", "*.model")
HASH = re.compile("[0-9a-f]{64}")
SAMPLE = 2**20  # bytes at either end of a weights file; reading all of a large model takes minutes
CONTENT = "{} (content)"  # key of the hashes of the files that a key names
SCHEDULE = f"{KEYS['lr'].rpartition('.')[0]} (length of its schedule)"


def defining(run: RunConfig) -> dict[str, Any]:
    """Return the settings that define a training, by dotted key, and hashes of its data, model and user's code."""
    off = [section for section, switch in OFF.items() if not run.get(switch)]
    defines = {key: value for key, value in leaves(run.config) if row_of(key).role == "defines"}
    values = {key: value for key, value in defines.items() if not below(key, off)}
    s = run.settings
    values[CONTENT.format(KEYS["train_files"])] = contents(run.files("train"))
    reward = _reward_source(s.reward_file or s.reward or "")
    if reward and reward.is_file() and not is_ours(s.reward):
        values[CONTENT.format(KEYS["reward"])] = _content(reward)
    for name in s.libraries or []:
        if file := source(name):
            values.setdefault(f"{KEYS['external_lib']} ({file.name}, content)", []).append(_content(file))
    for key in CODE:
        if isinstance(name := run.get(key), str) and (file := Path(name).expanduser()).is_file():
            values[CONTENT.format(key)] = _content(file)
    config = run.model / "config.json"
    values[MODEL_FILE] = _content(config) if config.is_file() else s.model  # a hub name
    values[WEIGHTS] = _sampled([*run.model.glob("*.safetensors"), *run.model.glob("*.bin")])
    tokenizer = Path(s.tokenizer or run.model).expanduser()
    values[TOKENIZER] = _sampled({file for pattern in TOKENIZER_FILES for file in tokenizer.glob(pattern)})
    if s.lr_schedule not in (None, "constant") or (s.warmup_ratio or 0) > 0:
        values[SCHEDULE] = s.steps or f"{s.epochs} epochs"
    return values


def _reward_source(name: str) -> Path | None:
    """Return a reward's file, or that of pkg://MODULE; None for a module of this package."""
    if not name.startswith(PACKAGE):
        return Path(name).expanduser()
    module = name.removeprefix(PACKAGE).replace("/", ".")
    return None if below(module, ["rpg"]) else source(module)


def contents(names: Iterable[str]) -> list[str]:
    """Return the hash of each file that is on this machine."""
    return [_content(file) for name in names if (file := Path(name).expanduser()).is_file()]


def _content(file: Path) -> str:
    with open(file, "rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def _sampled(files: Iterable[Path]) -> str | None:
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


def comparable(settings: dict[str, Any]) -> dict[str, Any]:
    """Return a fingerprint as it is recorded now; an own reward is known by its content, wherever the file is."""
    settings = dict(settings)
    if CONTENT.format(KEYS["reward"]) in settings:
        settings.pop(KEYS["reward_file"], None)
    return settings


def recorded_in(directory: Path) -> dict[str, Any]:
    """Return the fingerprint in a run's directory, {} without one. Raises Refused for a file that is none."""
    file = directory / NAME
    if not file.is_file():
        return {}
    try:
        return dict(json.loads(file.read_bytes()))
    except (OSError, ValueError, TypeError, RecursionError) as error:
        remedy = f"remove it, if {directory} holds the same training"
        raise Refused([Diagnostic(str(file), ABSENT, f"cannot be read: {error}", remedy)]) from error


def compare(directory: Path, run: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Return the settings that differ from the run in a directory: key -> (recorded, current); {} without a run."""
    if not (recorded := recorded_in(directory)):
        return {}
    recorded, current = map(comparable, (recorded, json.loads(json.dumps(defining(run)))))
    return {
        key: (recorded.get(key, "(not there)"), current.get(key, "(not there)"))
        for key in sorted({*recorded, *current})
        if recorded.get(key, ABSENT) != current.get(key, ABSENT)
    }


def refuse_another(directory: Path, run: RunConfig) -> dict[str, tuple[Any, Any]]:
    """Return the differing settings if the run may resume with them (rpg.resume_changed); {} if there are none.

    A run with trainer.resume_mode=disable may always start.

    Raises:
        Refused: the directory holds a run with other settings.
    """
    if run.settings.resume_mode == "disable":
        return {}
    changed = compare(directory, run)
    if not changed or run.settings.resume_changed:
        return changed
    ways = (
        "choose another name (trainer.experiment_name, CKPTS_DIR), or resume with the new settings by "
        "rpg.resume_changed=true"
    )
    raise Refused(
        [
            _changed_content(key, directory, run, ways)
            if is_hash(recorded) and is_hash(current)
            else Diagnostic(key, current, f"the run in {directory} has {shown(recorded)}", ways)
            for key, (recorded, current) in changed.items()
        ]
    )


def is_hash(value: Any) -> bool:
    """Return whether a value is the hash of a content, or a list of such."""
    values = value if isinstance(value, list) else [value]
    return bool(values) and all(isinstance(text, str) and HASH.fullmatch(text) for text in values)


def _changed_content(key: str, directory: Path, run: RunConfig, remedy: str) -> Diagnostic:
    """Return the diagnostic of files whose content differs; it names them instead of their hashes."""
    named = key.removesuffix(" (content)").replace(", content)", ")")
    s = run.settings
    files = s.reward_file or s.reward if named == KEYS["reward"] else run.get(named, ABSENT)
    return Diagnostic(named, files, f"changed since the run in {directory} started", remedy)


def record(directory: Path, run: RunConfig, step: int, changed: dict[str, tuple[Any, Any]], **made_with: Any) -> None:
    """Write the fingerprint, and a line of history with time, step, changed settings and what the run is made with."""
    write_whole(directory / NAME, json.dumps(defining(run), indent=1, sort_keys=True) + "\n")
    started = {
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "after_step": step,
        "changed": {key: list(values) for key, values in changed.items()},
        **made_with,
    }
    append_record(directory / HISTORY, started)
