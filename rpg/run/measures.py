"""What the numbers of a log measure: the metric of the training reward, and settings that change a number's meaning.

Two numbers of one name are of one kind only if these settings are equal; commands that show both say the difference.
"""

import re
from collections.abc import Collection, Iterable
from pathlib import PurePath
from typing import Any

from rpg.config.reward import FUNCTION, KWARGS
from rpg.config.run_config import RunConfig, leaves
from rpg.config.settings import OVERLONG
from rpg.rewards import OURS

# the training reward: over all groups, logged by runs with filter_groups only; over the groups of the batch
ALL_GROUPS, BATCH = REWARDS = ("critic/score_before_filtering/mean", "critic/score/mean")
VALIDATED = re.compile(r"val-core/(?P<data_source>.+)/(?P<variable>acc|reward)/mean@\d+", re.DOTALL)

FILTER = "algorithm.filter_groups.enable"
ROLLOUT = "actor_rollout_ref.rollout"
VALIDATION = f"{ROLLOUT}.val_kwargs"
PROMPT = (
    "data.max_prompt_length", "data.max_response_length", "data.truncation", "data.apply_chat_template_kwargs",
    "actor_rollout_ref.model.custom_chat_template",
)  # fmt: skip
SAMPLING = ("temperature", "top_p", "top_k")
ACCURACY, BEST, TRAINING_REWARD = "accuracy", "Best", "training reward"
# number -> settings on which its meaning depends; accuracy and training reward also depend on the reward function
SETTINGS = {
    BEST: ("trainer.test_freq",),
    ACCURACY: (
        *PROMPT, "data.val_files", "data.val_max_samples", f"{VALIDATION}.n", f"{VALIDATION}.do_sample",
        *(f"{VALIDATION}.{key}" for key in SAMPLING),
    ),
    TRAINING_REWARD: (
        *PROMPT, "data.train_files", "reward.reward_manager.name", f"{OVERLONG}.enable", f"{OVERLONG}.len",
        f"{OVERLONG}.penalty_factor", *(f"{ROLLOUT}.{key}" for key in SAMPLING),
    ),
    # of the batch, which filter_groups chooses
    "entropy": (FILTER, "actor_rollout_ref.actor.loss_agg_mode", f"{ROLLOUT}.temperature"),
    "response length": (FILTER, "data.max_response_length", f"{ROLLOUT}.temperature"),
    "clipped tokens": (FILTER,),
    "effective sample size": (FILTER, "algorithm.rollout_correction.rollout_is"),
}  # fmt: skip
OF_THE_PENALTY = (f"{OVERLONG}.len", f"{OVERLONG}.penalty_factor")
METRICS = {  # of the numbers that are not of validations
    TRAINING_REWARD: BATCH, "entropy": "actor/entropy", "response length": "response_length/mean",
    "clipped tokens": "actor/pg_clipfrac", "effective sample size": "training/off_policy/ess",
}  # fmt: skip


def is_validation(metric: str) -> bool:
    """Return whether a metric is a mean over a validation: of accuracies, or of scores if no accuracy is logged."""
    return VALIDATED.fullmatch(metric) is not None


def training_reward(logged: Collection[str]) -> str:
    """Return the metric of the training reward among the logged ones."""
    return ALL_GROUPS if ALL_GROUPS in logged else BATCH


def judge_of_config(config: dict[str, Any]) -> str | None:
    """Return the judge that scored a run: release, verified, or the name of another reward function's file.

    None without a configuration.
    """
    if not config:
        return None
    function = RunConfig(config).get(FUNCTION) or {}
    arguments = function.get("reward_kwargs") or {}
    path = arguments.get("file") or function.get("path", OURS)
    if path == OURS:
        return arguments.get("judge", "release")  # compute_score's default
    return PurePath(path).name if path else "verl's own"


def measured_by(number: str, config: dict[str, Any], logged: Collection[str]) -> dict[str, str]:
    """Return the settings behind a run's number of SETTINGS, by dotted key; {} without a configuration.

    logged: the names of the run's metrics.
    """
    if not config:
        return {}
    run = RunConfig(config)
    keys = SETTINGS[number]
    if not run.get(f"{OVERLONG}.enable"):
        keys = [key for key in keys if key not in OF_THE_PENALTY]
    settings = {key: run.get(key) for key in keys}
    if number in (ACCURACY, TRAINING_REWARD):
        settings["reward function"] = judge_of_config(config)
        settings |= {
            f"{KWARGS}.{key}": value
            for key, value in leaves(run.get(KWARGS) or {})
            if key not in ("", "file", "function", "judge")
        }
    if number == TRAINING_REWARD and run.get(FILTER) and ALL_GROUPS not in logged:
        settings["groups"] = "kept by algorithm.filter_groups"
    return {key: _shown(value) for key, value in settings.items()}


def _shown(value: Any) -> str:
    """Return the text of a value; of files only the names, because a data set may lie in several places."""
    values = value if isinstance(value, list) else [value]
    texts = [PurePath(item).name if isinstance(item, str) and "/" in item else str(item) for item in values]
    return ", ".join(texts)


def different(number: str, measured: Iterable[tuple[str, dict[str, str]]]) -> list[str]:
    """Return a sentence for each setting in which runs' `measured_by` of a number differ.

    measured: labels of rows or sides, each with the settings of one of its runs. Runs without settings are left out.
    """
    known = [(label, settings) for label, settings in measured if settings]
    sentences = []
    for key in dict.fromkeys(key for _, settings in known for key in settings):
        if key in OF_THE_PENALTY and not all(key in settings for _, settings in known):
            continue  # it is switched off in some, which is said
        rows: dict[str, list[str]] = {}
        for label, settings in known:
            rows.setdefault(settings.get(key, "not set"), []).append(label)
        if len(rows) > 1:
            values = "; ".join(f"{value} ({', '.join(dict.fromkeys(labels))})" for value, labels in rows.items())
            sentences.append(f"{number} is not of one kind: {key} is {values}")
    return sentences
