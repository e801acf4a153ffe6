"""What tells runs apart: settings of experiments, and what their accuracies are measured by."""

from collections.abc import Sequence
from pathlib import PurePath
from typing import Any

from rpg.config.record import CONTENTS
from rpg.config.verl_keys import ACTOR, FUNCTION, JUDGE, REF, RESUMABLE, VALIDATION
from rpg.dotted import below, leaves, value_at
from rpg.rewards import OURS

# of what a resume may change, what tells experiments apart all the same: the length, and how they are validated
DISTINGUISHING = (*VALIDATION, "trainer.total_training_steps", "trainer.total_epochs")
TRAINED_WITH = (ACTOR, REF, "algorithm", "rpg", "data.train_batch_size")  # which an untrained model has not had
UNTRAINED = "untrained"
FILES = "data.val_files"
IN_JUDGE = (JUDGE, f"{FUNCTION}.reward_kwargs.file", f"{FUNCTION}.reward_kwargs.function")


def judge_of(config: dict[str, Any]) -> str:
    """Return the judge that scored a run: release, verified, or the name of another reward function's file."""
    if not config:
        return "not recorded"
    path = value_at(config, f"{FUNCTION}.reward_kwargs.file") or value_at(config, f"{FUNCTION}.path", OURS)
    if path == OURS:
        return value_at(config, JUDGE) or "release"  # compute_score's default
    return PurePath(path).name if path else "verl's own"


def settings(config: dict[str, Any]) -> dict[str, str]:
    """Return the settings that distinguish experiments, without seeds.

    Adds `judge` and, for an evaluation, `checkpoint`; an evaluation of the untrained model has none of TRAINED_WITH.
    """
    kept = {
        key: repr(value)
        for key, value in leaves(config)
        if not key.endswith("seed") and key != JUDGE and value != {}
        and (not below(key, RESUMABLE) or below(key, DISTINGUISHING))
    }  # fmt: skip
    if config:
        kept["judge"] = judge_of(config)
    if value_at(config, "trainer.val_only"):
        checkpoint = PurePath(value_at(config, "trainer.resume_from_path") or "").name
        evaluated = {"disable": UNTRAINED, "resume_path": checkpoint}
        kept["checkpoint"] = evaluated.get(value_at(config, "trainer.resume_mode"), "latest")
        if kept["checkpoint"] == UNTRAINED:
            return {key: value for key, value in kept.items() if not below(key, TRAINED_WITH)}
    return kept


def differing(all_settings: Sequence[dict[str, str]]) -> dict[str, list[str | None]]:
    """Return dotted key -> values, for keys whose values differ; None for a missing key.

    That an untrained model has no settings of a training is no difference.
    """
    different = {}
    for key in sorted({key for one in all_settings for key in one}):
        had = [one for one in all_settings if not below(key, TRAINED_WITH) or one.get("checkpoint") != UNTRAINED]
        if len({one.get(key) for one in had}) > 1:
            different[key] = [one.get(key) for one in all_settings]
    return different


def measured_by(runs: Sequence[Any]) -> list[dict[str, str]]:
    """Return what each run's accuracies are measured by: judge and VALIDATION, by dotted key; {} without a config.yaml.

    Validation files are compared by their hashes if all runs have them: a data set may lie in several places.
    """
    hashes = [value_at(run.environment, CONTENTS, {}).get(FILES) for run in runs]
    measures = []
    for run, contents in zip(runs, hashes, strict=True):
        values = {f"{key}.{name}".rstrip("."): value
                  for key in VALIDATION for name, value in leaves(value_at(run.config, key))}  # fmt: skip
        files = [values[FILES]] if isinstance(values[FILES], str) else values[FILES] or []
        values[FILES] = [text[:8] for text in contents] if all(hashes) else [PurePath(file).name for file in files]
        values["judge"] = judge_of(run.config)
        known = {key: value for key, value in values.items() if key not in IN_JUDGE and value not in (None, {})}
        measures.append({key: str(value) for key, value in known.items()} if run.config else {})
    return measures
