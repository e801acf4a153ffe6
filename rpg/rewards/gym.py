"""reasoning-gym's tasks, and their reward: the library's own score of an answer to the problem in the row.

    rpg train NAME --reward pkg://rpg.rewards.gym --train FILE --test FILE

The reward is called like a user's function: in a child process, with a time limit (user_child.py). A row of
`rpg data build reasoning_gym:TASK` has the library's entry as JSON in extra_info. Needs the extra `gym`.
"""

import functools
import json
from collections.abc import Mapping
from typing import Any

from rpg.rewards import few_shot_answer
from rpg.rewards.extract import extract_answer
from rpg.rewards.user_function import RewardError

try:
    import reasoning_gym
    from reasoning_gym.factory import DATASETS
    from reasoning_gym.utils import SYSTEM_PROMPTS
    from reasoning_gym.utils import extract_answer as tagged_answer
except ModuleNotFoundError as error:
    raise ModuleNotFoundError(
        f"reasoning-gym cannot be imported ({error}); install the extra: pip install 'rpg-verl[gym]'"
    ) from error

TASKS = DATASETS  # name -> class of the data set, class of its options
COLUMN = "reasoning_gym"  # of extra_info: the entry as JSON
PROMPT = SYSTEM_PROMPTS["default"]  # asks for <answer>
TUPLE, DICT = "()", "{}"  # keys of an object that stands for a tuple, and for a dict whose keys are not text


def compute_score(
    data_source: str, solution_str: str, ground_truth: Any, extra_info: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Score one response: {"score": the library's, "acc": 1.0 if that is 1, "pred": the answer, "raised": 0.0 or 1.0}.

    The answer is in the last <answer> tags, else as in extract.py; in a few-shot row it begins the response. An answer
    at which the library's rule raises is wrong (`raised`).

    Raises RewardError for a row without an entry.
    """
    extra = extra_info or {}
    if not extra.get(COLUMN):
        what = f"a row of {data_source!r} has no extra_info.{COLUMN}"
        raise RewardError(f"{what}; build it with `rpg data build reasoning_gym:TASK`")
    task, config, entry = read_entry(extra[COLUMN], extra.get("raw_problem"))
    answer = few_shot_answer(solution_str, extra)
    if answer is None:
        answer = answer_of(solution_str)
    score, raised = score_of(dataset(task, write(config)), answer, entry)
    return {"score": score, "acc": float(score >= 1.0), "pred": answer or "", "raised": float(raised)}


def answer_of(response: str) -> str | None:
    """Return the answer in a response, or None."""
    tagged = tagged_answer(response)
    return tagged if tagged is not None else extract_answer(response) or None


def score_of(task: Any, answer: str | None, entry: dict[str, Any]) -> tuple[float, bool]:
    """Return the library's score of an answer, 0 to 1, and whether its rule raised."""
    try:
        return float(task.score_answer(answer, entry)), False
    except Exception:  # noqa: BLE001  # for example int("abc") in prime_factorization
        return 0.0, True


@functools.cache
def dataset(task: str, config: str) -> Any:
    """Return the library's data set that scores the rows of a task; `config` is its options as JSON."""
    return reasoning_gym.create_dataset(task, seed=0, **read(config))


def entry_text(task: str, config: Mapping[str, Any], entry: Mapping[str, Any]) -> str:
    """Return task, options and entry without its question as JSON. Raises TypeError for a value that JSON cannot hold.

    The entry read back equals the entry, with tuples and with keys that are not text.
    """
    kept = {key: value for key, value in entry.items() if key != "question"}
    text = write({"task": task, "config": dict(config), "entry": kept})
    if read_entry(text, entry["question"])[2] != entry:
        raise TypeError("its values are not the same after JSON")
    return text


def read_entry(text: str, question: str | None) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Return task, options and entry of a row."""
    held = read(text)
    return held["task"], held["config"], {**held["entry"], "question": question}


def write(value: Any) -> str:
    """Return a value as JSON, from which `read` returns an equal value."""
    return json.dumps(_plain(value), ensure_ascii=False)


def read(text: str) -> Any:
    """Return the value of a JSON text of `write`."""
    return json.loads(text, object_hook=_restored)


def _plain(value: Any) -> Any:
    if isinstance(value, tuple):
        return {TUPLE: [_plain(part) for part in value]}
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, dict):
        if all(isinstance(key, str) for key in value) and not {TUPLE, DICT} & value.keys():
            return {key: _plain(part) for key, part in value.items()}
        return {DICT: [[_plain(key), _plain(part)] for key, part in value.items()]}
    return value


def _restored(value: dict[str, Any]) -> Any:
    if value.keys() == {TUPLE}:
        return tuple(value[TUPLE])
    return dict(value[DICT]) if value.keys() == {DICT} else value
