"""Checks of reward function and judge."""

import math
from pathlib import Path

from rpg.checks.data import faults, local_files
from rpg.config.run_config import RunConfig
from rpg.config.user_code import is_ours
from rpg.config.verl_keys import FUNCTION, JUDGE
from rpg.data.readers import DataError, read_file
from rpg.data.truths import try_truths
from rpg.diagnostics import Diagnostic, Findings
from rpg.rewards import JUDGES, OPTIONS, OURS, check_options
from rpg.rewards.user_function import RewardError, reward_file
from rpg.rewards.user_reward import (
    ADAPTER,
    WRONG,
    RewardTimeout,
    blind_to,
    compute_score,
    example,
    sandbox_of,
    shown_score,
)

FILE = f"{FUNCTION}.reward_kwargs.file"
SET_JUDGE = f"set the judge by judge={', judge='.join(JUDGES)}"
TRIAL_LIMIT = 60.0  # seconds of the trial call


def judge(run: RunConfig) -> Findings:
    """reward_kwargs are keywords of rpg.rewards; a custom reward function gets no judge.

    Checks the judge and its options.
    """
    key = f"{FUNCTION}.reward_kwargs"
    options = run[f"{FUNCTION}.reward_kwargs"] or {}
    if not isinstance(options, dict):
        yield run.error(f"{FUNCTION}.reward_kwargs", "must be a mapping", SET_JUDGE)
        return
    if not is_ours(run[f"{FUNCTION}.path"]):
        if run[JUDGE] in JUDGES:
            message = f"is for {OURS}, and {run.shown(f'{FUNCTION}.path')} is another function"
            yield run.error(JUDGE, message, f"add '~{JUDGE}' to the overrides")
        return
    unknown = sorted(set(options) - set(OPTIONS))
    for name in unknown:
        yield Diagnostic(f"{key}.{name}", options[name], f"rpg.rewards takes {', '.join(OPTIONS)}", "remove it")
    try:
        check_options(**{name: value for name, value in options.items() if name in OPTIONS})
    except ValueError as error:
        named, _, message = str(error).partition(" ")
        name, _, value = named.partition("=")
        yield Diagnostic(f"{key}.{name}", value, message, SET_JUDGE)


def reward_function(run: RunConfig) -> Findings:
    """The file of the reward function exists; `reward_trial` imports it."""
    path, key = run[f"{FUNCTION}.path"], f"{FUNCTION}.path"
    if path == ADAPTER:
        path, key = run[FILE] or "", FILE
    try:
        reward_file(path or OURS)
    except RewardError as error:
        yield run.error(key, str(error).removeprefix(f"{path}: "))


def truths(run: RunConfig) -> Findings:
    """rpg.rewards accepts the ground truths of every file in the form that their prompts ask for.

    Tries a sample. Of cost "verl" for math-verify, which takes seconds.
    """
    if not is_ours(run[f"{FUNCTION}.path"]) or run["data.custom_cls.path"] or any(judge(run)):
        return
    for file in local_files(run):
        if any(faults(file, run["data.prompt_key"])):  # data_files reports them
            continue
        trial = try_truths(Path(file.name), run[f"{FUNCTION}.reward_kwargs"], run["data.prompt_key"])
        if found := trial.diagnostic(JUDGE, file.name):
            yield found


def reward_trial(run: RunConfig) -> Findings:
    """An own reward function tells a right from a wrong response to the first training row, and has the filter's key.

    Calls the function twice, as a run does, with responses in the form that the prompt asks for.
    """
    file = next((path for name in run.files("train") if (path := Path(name)).is_file()), None)
    if run[f"{FUNCTION}.path"] != ADAPTER or file is None or any(reward_function(run)):
        yield run.error(f"{FUNCTION}.path", "nothing to try", "", "skip")
        return
    limit = min(run["rpg.reward_limit"] or math.inf, TRIAL_LIMIT)
    own = run[FILE]
    remedy = f"try it: rpg score {file} --reward {own}"
    try:
        _, row = next(iter(read_file(file)))
        truth = row["reward_model"]["ground_truth"]
        prompt, options = row["prompt"], {**(run[f"{FUNCTION}.reward_kwargs"] or {}), "reward_limit": limit}
        extra = row.get("extra_info")
        *right, wrong = (
            compute_score(row["data_source"], example(answer, prompt, extra), truth, extra, **options)
            for answer in (*([] if truth is None else [truth]), WRONG)
        )
    except RewardTimeout as error:
        if limit == run["rpg.reward_limit"]:
            yield run.error(FILE, f"the first training row: {error}", remedy)
        else:
            message = f"no score within {limit:g} s; a run would wait longer"
            yield run.error(FILE, message, remedy, "skip")
    except RewardError as error:
        yield run.error(FILE, f"the first training row: {error}", remedy)
    except (DataError, StopIteration, LookupError) as error:  # other checks report the file
        yield run.error(FILE, f"no row to try it on ({error})", "", "skip")
    else:
        score, kind = (right[0], "right") if right else (wrong, "wrong")  # the row may have no right answer
        scores = f"a {kind} answer to the first training row has {shown_score(score)}"
        if right and score["score"] <= wrong["score"]:
            what = f"{scores}, a wrong one {shown_score(wrong)}; {blind_to(prompt)}"
            yield run.error(FILE, what, remedy, "warning")
        else:
            yield run.error(FILE, scores, "", "ok")
        numbers = [name for name in score if name != "pred"]
        metric = "algorithm.filter_groups.metric"
        if run["algorithm.filter_groups.enable"] and run[metric] not in (*numbers, "reward"):  # verl's name of it
            yield run.error(metric, f"the function returns {', '.join(numbers)}", "set it to acc")
    finally:
        sandbox_of(own, run[f"{FUNCTION}.reward_kwargs.function"]).stop()  # a run that starts now lasts for hours
