"""Checks of the reward function and its judge."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rpg.config.check import check
from rpg.config.run_config import RunConfig
from rpg.config.settings import FUNCTION
from rpg.data.diagnostics import Diagnostic
from rpg.data.readers import DataError, read_file
from rpg.rewards import JUDGES, OPTIONS, OURS, check_options
from rpg.rewards.user_reward import (
    ADAPTER,
    PACKAGE,
    USUAL_NAME,
    RewardError,
    RewardTimeout,
    compute_score,
    example,
    find_reward,
    shown_score,
)

KWARGS = f"{FUNCTION}.reward_kwargs"
JUDGE = f"{KWARGS}.judge"
FILTER = "algorithm.filter_groups"
TRIAL_LIMIT = 60.0  # seconds of the trial call


def is_ours(path: str | None) -> bool:
    """Return whether the reward function is rpg.rewards, in either spelling that verl accepts."""
    import rpg.rewards

    return path == OURS or (bool(path) and Path(str(path)).expanduser().resolve() == Path(rpg.rewards.__file__))


def through_adapter(settings: dict[str, Any]) -> dict[str, Any]:
    """Return a fingerprint with an own reward as it is recorded now; verl's form was once called without the adapter.

    settings: values by dotted key. Whether the function changed shows in the hash of its file.
    """
    path = settings.get(f"{FUNCTION}.path")
    if not isinstance(path, str) or path == ADAPTER or is_ours(path):
        return settings
    file = PACKAGE + path.removeprefix(PACKAGE).replace("/", ".") if path.startswith(PACKAGE) else path
    keywords = {f"{KWARGS}.file": file, f"{KWARGS}.function": settings.get(f"{FUNCTION}.name")}
    kept = {key: value for key, value in settings.items() if key != KWARGS}  # {} without keywords
    return {**kept, f"{FUNCTION}.path": ADAPTER, f"{FUNCTION}.name": "compute_score", **keywords}


@check("judge", "reward_kwargs are keywords of rpg.rewards; a custom reward function gets no judge")
def judge(run: RunConfig) -> Iterator[Diagnostic]:
    """Checks the judge and its options."""
    path, options = run.get(f"{FUNCTION}.path"), run.get(KWARGS) or {}
    if not isinstance(options, dict):
        yield Diagnostic(KWARGS, options, "must be a mapping", "judge=release or judge=verified sets the judge")
        return
    if not is_ours(path):
        if options.get("judge") in JUDGES:
            wrong = f"is for {OURS}, and {FUNCTION}.path={path} is another function"
            yield Diagnostic(JUDGE, options["judge"], wrong, f"add '~{JUDGE}' to the overrides")
        return
    unknown = sorted(set(options) - set(OPTIONS))
    for name in unknown:
        yield Diagnostic(f"{KWARGS}.{name}", options[name], f"rpg.rewards takes {', '.join(OPTIONS)}", "remove it")
    try:
        check_options(**{name: value for name, value in options.items() if name in OPTIONS})
    except ValueError as error:
        named, _, wrong = str(error).partition(" ")
        key, _, value = named.partition("=")
        yield Diagnostic(f"{KWARGS}.{key}", value, wrong, "judge=release or judge=verified sets the judge")


@check("reward function", "the file or module of the reward function exists and defines it", subject="files")
def reward_function(run: RunConfig) -> Iterator[Diagnostic]:
    """Reads the source; importing it is left to `rpg doctor` and the reward workers, because it may take long."""
    path, name, key = run.get(f"{FUNCTION}.path"), run.get(f"{FUNCTION}.name"), f"{FUNCTION}.path"
    if path is None:
        return
    if path == ADAPTER:
        options = run.get(KWARGS) or {}
        path, name, key = options.get("file", ""), options.get("function", USUAL_NAME), f"{KWARGS}.file"
    try:
        find_reward(path, name)
    except RewardError as error:
        key, value = (f"{FUNCTION}.name", name) if is_ours(path) else (key, path)
        yield Diagnostic(key, value, str(error).removeprefix(f"{path}: "))


@check("reward trial", "an own reward function scores a response to the first training row, and has the filter's key",
       "thorough", "files")  # fmt: skip
def reward_trial(run: RunConfig) -> Iterator[Diagnostic]:
    """Calls the function once, as a run does."""
    options = run.get(KWARGS) or {}
    file = next((path for name in run.files("train") if (path := Path(name).expanduser()).is_file()), None)
    if run.get(f"{FUNCTION}.path") != ADAPTER or file is None or any(reward_function(run)):
        yield Diagnostic(f"{FUNCTION}.path", run.get(f"{FUNCTION}.path"), "nothing to try", level="skip")
        return
    limit = min(run.get("rpg.reward_limit") or math.inf, TRIAL_LIMIT)
    key, remedy = f"{KWARGS}.file", f"try it: rpg score {file} --reward {options.get('file')}"
    try:
        _, row = next(iter(read_file(file)))
        truth = row["reward_model"]["ground_truth"]
        arguments = (row["data_source"], example(truth), truth, row.get("extra_info"))
        score = compute_score(*arguments, **{**options, "reward_limit": limit})
    except RewardTimeout as error:
        wrong, level = f"the first training row: {error}", "error"
        if limit != run.get("rpg.reward_limit"):
            wrong, level = f"no score within {limit:g} s, after which a run still waits", "skip"
        yield Diagnostic(key, options.get("file"), wrong, remedy, level)  # type: ignore[arg-type]
    except RewardError as error:
        yield Diagnostic(key, options.get("file"), f"the first training row: {error}", remedy)
    except (DataError, StopIteration, LookupError, TypeError) as error:  # other checks report the file
        yield Diagnostic(key, options.get("file"), f"no row to try it on ({error})", level="skip")
    else:
        yield Diagnostic(key, options.get("file"), f"the first training row has {shown_score(score)}", level="ok")
        metric, numbers = run.get(f"{FILTER}.metric"), [name for name in score if name != "pred"]
        if run.get(f"{FILTER}.enable") and metric not in (*numbers, "reward"):  # verl's name of the reward
            yield Diagnostic(f"{FILTER}.metric", metric, f"the function returns {', '.join(numbers)}", "set it to acc")
