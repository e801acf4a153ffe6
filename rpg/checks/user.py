"""Checks of judge and reward function: a trial on rows of the run, by the code that scores its responses."""

from pathlib import Path

from rpg.checks.data import usable_files
from rpg.config.run_config import RunConfig
from rpg.config.verl_keys import FUNCTION, JUDGE, REWARD_FILE
from rpg.data.check import fault_of_truths
from rpg.data.readers import read_file
from rpg.diagnostics import Findings, UserError
from rpg.rewards import gym_sandbox, release
from rpg.rewards.extract import WRONG, blind_to, example
from rpg.rewards.user_reward import RewardError, compute_score, reward_file, sandbox_of

KWARGS, METRIC = f"{FUNCTION}.reward_kwargs", "algorithm.filter_groups.metric"


def truths(run: RunConfig) -> Findings:
    """rpg.rewards takes reward_kwargs, and accepts each file's ground truths in the form that their prompts ask for.

    Tries a sample. Of cost "verl" for math-verify, which takes seconds.
    """
    if run.own_reward:
        return
    try:
        for file in usable_files(run):
            if found := fault_of_truths(Path(file.name), run[KWARGS], JUDGE, run[JUDGE], run["data.prompt_key"]):
                yield found
    except (TypeError, ValueError) as error:
        yield run.error(KWARGS, str(error), "set the judge by judge=NAME")
    finally:
        release.sandbox.stop()  # a run that starts now lasts for hours
        gym_sandbox.stop()


def reward_trial(run: RunConfig) -> Findings:
    """An own reward function exists, tells a right from a wrong response to the first row, and has the filter's key.

    Calls the function twice, as a run does, with responses in the form that the prompt asks for.
    """
    if not (own := run.own_reward):
        return
    file = run.files("train")[0]
    first, remedy = f"the first row of {file}", f"try it: rpg score {file} --reward {own}"
    try:
        reward_file(own)  # exists
        _, row = next(iter(read_file(file)))
        truth, prompt, extra = row["reward_model"]["ground_truth"], row[run["data.prompt_key"]], row.get("extra_info")
        options = {**run[KWARGS], "reward_limit": run.rpg.reward_limit}
        *right, wrong = (
            compute_score(row["data_source"], example(answer, prompt, extra), truth, extra, **options)
            for answer in (*([] if truth is None else [truth]), WRONG)
        )
    except RewardError as error:
        yield run.error(REWARD_FILE, f"{first}: {error}", remedy)
    except (UserError, StopIteration, LookupError):  # data_files reports the file
        return
    else:
        if right and right[0]["score"] <= wrong["score"]:  # the row may have no right answer
            scores = f"a right answer to {first} has score {right[0]['score']:g}, a wrong one {wrong['score']:g}"
            yield run.error(REWARD_FILE, f"{scores}; {blind_to(prompt)}", remedy, "warning")
        numbers = [name for name in wrong if name != "pred"]
        if run["algorithm.filter_groups.enable"] and run[METRIC] not in (*numbers, "reward"):  # verl's name of it
            yield run.error(METRIC, f"the function returns {', '.join(numbers)}", "set it to acc")
    finally:
        sandbox_of(own, run[f"{KWARGS}.function"]).stop()  # a run that starts now lasts for hours
