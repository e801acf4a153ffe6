"""What the numbers of a log measure: settings that change a number's meaning.

Two numbers of one name are comparable only if these settings are equal; commands that show both say the difference.
"""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from rpg.config.fingerprint import CONTENT
from rpg.config.keys import KEYS, ROWS
from rpg.dotted import leaves, value_at
from rpg.logged import ALL_GROUPS, BATCH
from rpg.names import ACCURACY, BEST, CLIPPED_TOKENS, EFFECTIVE_SAMPLE_SIZE, ENTROPY, RESPONSE_LENGTH, TRAINING_REWARD
from rpg.results.messages import NAME, Note, listed, shortened
from rpg.results.run_settings import judge_of_config, setting
from rpg.results.runs import RunLog

# numbers whose settings are compared; accuracy and training reward also depend on the reward function
NUMBERS = (BEST, ACCURACY, TRAINING_REWARD, ENTROPY, RESPONSE_LENGTH, CLIPPED_TOKENS, EFFECTIVE_SAMPLE_SIZE)
OF_THE_PENALTY = (KEYS["overlong_len"], KEYS["overlong_factor"])
REWARD = "reward function"
FILES = (KEYS["train_files"], KEYS["val_files"])
CONTENTS = {CONTENT.format(KEYS["reward"]): REWARD} | {CONTENT.format(key): key for key in FILES}
METRICS = {  # of the numbers that are not of validations
    TRAINING_REWARD: BATCH, ENTROPY: "actor/entropy", RESPONSE_LENGTH: "response_length/mean",
    CLIPPED_TOKENS: "actor/pg_clipfrac", EFFECTIVE_SAMPLE_SIZE: "training/off_policy/ess",
}  # fmt: skip


def measured_by(number: str, run: RunLog) -> dict[str, str]:
    """Return the settings behind a run's number of NUMBERS, by dotted key; {} without a configuration."""
    config = run.config
    if not config:
        return {}
    rows = [row for row in ROWS.values() if number in row.measures]
    if not setting(config, "overlong"):
        rows = [row for row in rows if row.key not in OF_THE_PENALTY]
    settings: dict[str, Any] = {row.key: setting(config, row.name) for row in rows}
    if number in (ACCURACY, TRAINING_REWARD):
        name = value_at(config, f"{KEYS['reward_options']}.function")
        settings[REWARD] = ", ".join(filter(None, [judge_of_config(config), name]))
        settings |= {
            f"{KEYS['reward_options']}.{key}": value
            for key, value in leaves(setting(config, "reward_options") or {})
            if key not in ("", "file", "function", "judge")
        }
    if number == TRAINING_REWARD and setting(config, "filters") and ALL_GROUPS not in run.metrics:
        settings["groups"] = "kept by algorithm.filter_groups"
    for key in FILES:
        if files := settings.get(key):  # only their names, because a data set may lie in several places
            settings[key] = [PurePath(file).name for file in ([files] if isinstance(files, str) else files)]
    for content, key in CONTENTS.items():
        if settings.get(key) and content in run.contents:
            hashes = run.contents[content]
            settings[content] = [text[:8] for text in ([hashes] if isinstance(hashes, str) else hashes)]
    return {
        key: ", ".join(map(str, value)) if isinstance(value, list) else str(value) for key, value in settings.items()
    }


def _compared(key: str, known: Sequence[dict[str, str]]) -> bool:
    """Return whether runs are compared by a setting; by numbers of the penalty and contents only if all have them."""
    return key not in (*OF_THE_PENALTY, *CONTENTS) or all(key in settings for settings in known)


def alike(first: dict[str, str], second: dict[str, str]) -> bool:
    """Return whether two runs' `measured_by` of a number are of one kind, so that the number compares."""
    keys = first.keys() | second.keys()
    return all(first.get(key) == second.get(key) for key in keys if _compared(key, [first, second]))


def not_of_one_kind(number: str, runs: Sequence[tuple[str, RunLog]]) -> list[Note]:
    """Return a note for each setting in which runs differ behind a number of NUMBERS.

    runs: each with the label of its row or side. Runs without a configuration are left out.
    """
    metric = METRICS.get(number)
    if metric and not any(metric in run.metrics for _, run in runs):
        return []
    known = [(label, settings) for label, run in runs if (settings := measured_by(number, run))]
    short = shortened((label for label, _ in known), NAME)
    notes: dict[str, Note] = {}
    for key in dict.fromkeys(key for _, settings in known for key in settings):
        if CONTENTS.get(key) in notes or not _compared(key, [settings for _, settings in known]):
            continue
        rows: dict[str, list[str]] = {}
        for label, settings in known:
            rows.setdefault(settings.get(key, "not set"), []).append(label)
        if len(rows) > 1:
            texts = [f"{value} ({listed([short[x] for x in dict.fromkeys(labels)])})" for value, labels in rows.items()]
            notes[key] = Note(f"{number} is not comparable: {key} is {listed(texts, '; ')}")
    return [*notes.values()]
