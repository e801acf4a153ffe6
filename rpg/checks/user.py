"""Checks of reward function and judge."""

import math
from pathlib import Path

from rpg.checks.data import faults, local_files
from rpg.config.keys import KEYS
from rpg.config.run_config import RunConfig
from rpg.config.user_code import is_ours
from rpg.data.readers import DataError, read_file
from rpg.data.truths import try_truths
from rpg.diagnostics import Diagnostic, Findings
from rpg.rewards import JUDGES, OPTIONS, OURS, check_options
from rpg.rewards.user_function import USUAL, USUAL_NAME, RewardError, find_reward
from rpg.rewards.user_reward import (
    ADAPTER,
    WRONG,
    RewardTimeout,
    blind_to,
    compute_score,
    example,
    shown_score,
)

TRIAL_LIMIT = 60.0  # seconds of the trial call


def judge(run: RunConfig) -> Findings:
    """reward_kwargs are keywords of rpg.rewards; a custom reward function gets no judge.

    Checks the judge and its options.
    """
    s, key = run.settings, KEYS["reward_options"]
    options = s.reward_options or {}
    if not isinstance(options, dict):
        yield s.error("reward_options", "must be a mapping", "judge=release or judge=verified sets the judge")
        return
    if not is_ours(s.reward):
        if s.judge in JUDGES:
            message = f"is for {OURS}, and {s.shown('reward')} is another function"
            yield s.error("judge", message, f"add '~{KEYS['judge']}' to the overrides")
        return
    unknown = sorted(set(options) - set(OPTIONS))
    for name in unknown:
        yield Diagnostic(f"{key}.{name}", options[name], f"rpg.rewards takes {', '.join(OPTIONS)}", "remove it")
    try:
        check_options(**{name: value for name, value in options.items() if name in OPTIONS})
    except ValueError as error:
        named, _, message = str(error).partition(" ")
        name, _, value = named.partition("=")
        yield Diagnostic(f"{key}.{name}", value, message, "judge=release or judge=verified sets the judge")


def reward_function(run: RunConfig) -> Findings:
    """The file or module of the reward function exists and defines it.

    Reads the source; importing it is left to `rpg doctor` and the reward workers, because it may take long.
    """
    s, named = run.settings, "reward"
    if s.reward is None:
        return
    path, name = s.reward, s.reward_function
    if path == ADAPTER:
        path, name, named = s.reward_file or "", s.reward_file_function or USUAL_NAME, "reward_file"
    elif name == USUAL[0] and not is_ours(path):  # verl's default; the file may have another
        name = None
    try:
        find_reward(path, name)
    except RewardError as error:
        yield s.error("reward_function" if is_ours(path) else named, str(error).removeprefix(f"{path}: "))


def truths(run: RunConfig) -> Findings:
    """rpg.rewards accepts the ground truths of every file in the form that their prompts ask for.

    Tries a sample. Of cost "verl" for math-verify, which takes seconds.
    """
    s = run.settings
    if not is_ours(s.reward) or s.data_class or any(judge(run)):
        return
    for file in local_files(run):
        if any(faults(file, s.prompt_key)):  # data_files reports them
            continue
        if found := try_truths(Path(file.name), s.reward_options, s.prompt_key).diagnostic(KEYS["judge"], file.name):
            yield found


def reward_trial(run: RunConfig) -> Findings:
    """An own reward function tells a right from a wrong response to the first training row, and has the filter's key.

    Calls the function twice, as a run does, with responses in the form that the prompt asks for.
    """
    s = run.settings
    file = next((path for name in run.files("train") if (path := Path(name)).is_file()), None)
    if s.reward != ADAPTER or file is None or any(reward_function(run)):
        yield s.finding("reward", "nothing to try", "", "skip")
        return
    limit = min(s.reward_limit or math.inf, TRIAL_LIMIT)
    remedy = f"try it: rpg score {file} --reward {s.reward_file}"
    try:
        _, row = next(iter(read_file(file)))
        truth = row["reward_model"]["ground_truth"]
        prompt, options = row["prompt"], {**(s.reward_options or {}), "reward_limit": limit}
        extra = row.get("extra_info")
        *right, wrong = (
            compute_score(row["data_source"], example(answer, prompt, extra), truth, extra, **options)
            for answer in (*([] if truth is None else [truth]), WRONG)
        )
    except RewardTimeout as error:
        if limit == s.reward_limit:
            yield s.error("reward_file", f"the first training row: {error}", remedy)
        else:
            message = f"no score within {limit:g} s; a run would wait longer"
            yield s.finding("reward_file", message, remedy, "skip")
    except RewardError as error:
        yield s.error("reward_file", f"the first training row: {error}", remedy)
    except (DataError, StopIteration, LookupError) as error:  # other checks report the file
        yield s.finding("reward_file", f"no row to try it on ({error})", "", "skip")
    else:
        score, kind = (right[0], "right") if right else (wrong, "wrong")  # the row may have no right answer
        scores = f"a {kind} answer to the first training row has {shown_score(score)}"
        if right and score["score"] <= wrong["score"]:
            what = f"{scores}, a wrong one {shown_score(wrong)}; {blind_to(prompt)}"
            yield s.finding("reward_file", what, remedy, "warning")
        else:
            yield s.finding("reward_file", scores, "", "ok")
        numbers = [name for name in score if name != "pred"]
        if s.filters and s.filter_metric not in (*numbers, "reward"):  # verl's name of the reward
            yield s.error("filter_metric", f"the function returns {', '.join(numbers)}", "set it to acc")
