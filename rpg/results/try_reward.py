"""`rpg score --reward FILE ROWS.parquet`: try a custom reward function on a few rows before a run."""

import time
from collections import defaultdict
from collections.abc import Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from rpg.config.compose import CONFIG_DIR, parse
from rpg.data.readers import DataError, read_file
from rpg.diagnostics import BadSetting, printable, shown
from rpg.dotted import below, put
from rpg.results.messages import ResultsError
from rpg.results.runs import read_lines
from rpg.rewards import Score
from rpg.rewards.user_function import RewardError, find_reward
from rpg.rewards.user_reward import CALLED_WITH, WRONG, blind_to, compute_score, example, load, shown_score

SHOWN = 60  # shown characters of a response
GIVEN = "given"  # the kind of a response from a file


def try_reward(
    file: str,
    paths: list[Path],
    responses: Path | None,
    rows: int,
    name: str | None = None,
    keywords: Sequence[str] = (),
) -> int:
    """Score responses to the first rows of each file as a run does; print what it would log, and the times.

    file: as reward.custom_reward_function.path. responses: a JSONL file with one response per row, in order; default:
    each row's answer and a wrong one, in the form that the prompt asks for. name, keywords: of the function, and
    KEY=VALUE of its reward_kwargs.
    Returns 1 if the file cannot be imported, or the function raised, returned no reward, or scored wrong answers like
    right ones or above, else 0.
    Raises RewardError, DataError and ResultsError for files that cannot be used.
    """
    reward, options = find_reward(file, name), options_of(keywords)
    try:
        load(reward.file, reward.function)
    except RewardError as error:
        print(f"error: {error}")
        return 1
    saved = _saved_responses(responses, paths) if responses else None
    limit = yaml.safe_load((CONFIG_DIR / "rpg_trainer.yaml").read_text(encoding="utf-8"))["rpg"]["reward_limit"]
    function = partial(compute_score, file=reward.file, function=reward.function, reward_limit=limit, **options)
    failed, times = 0, []
    scores: dict[str, list[Score]] = defaultdict(list)
    for path in paths:
        for number, (place, row) in enumerate(islice(read_file(path), len(saved) if saved else rows)):
            if missing := {"data_source", "reward_model"} - set(row):
                raise DataError(f"{path}: no column {', '.join(sorted(missing))}; build it with `rpg data build`")
            if not isinstance(row["reward_model"], dict) or "ground_truth" not in row["reward_model"]:
                raise DataError(f"{place}: no reward_model.ground_truth; build the file with `rpg data build`")
            key = row["reward_model"]["ground_truth"]
            prompt = row.get("prompt", "")
            extra = row.get("extra_info")
            tried = {"right": example(key, prompt, extra), "wrong": example(WRONG, prompt, extra)}
            if key is None:  # the row has no right answer, only its rule
                del tried["right"]
            if saved:
                text, truth = saved[number]
                if truth is not None and truth != key:
                    message = f"is to a problem with the answer {truth!r}, and {place} has {key!r}"
                    raise ResultsError(f"{responses}, response {number + 1}: {message}; give one a row, in their order")
                tried = {GIVEN: text}
            for kind, response in tried.items():
                begun = time.perf_counter()
                try:
                    score = function(row["data_source"], response, key, extra)
                except RewardError as error:
                    failed += 1
                    result = printable(str(error))
                else:
                    scores[kind].append(score)
                    result = shown_score(score)
                times.append(time.perf_counter() - begun)
                begins = shown(" ".join(response.split()))[:SHOWN]
                print(f"{place}, {kind} ({begins}): {result}, {1000 * times[-1]:.1f} ms", flush=True)
    print(f"{Path(reward.file).name}, {reward.function}: {means(scores) or 'no score'}; {failed} raised")
    if not times or (saved and len(times) < len(saved)):
        raise ResultsError(
            f"{paths[0]}: has {len(times)} rows, and {len(saved or ())} responses are given; give one a row"
        )
    mean = 1000 * sum(times) / len(times)
    print(f"{mean:.1f} ms per response, slowest {1000 * max(times):.1f} ms; rpg.reward_limit is {limit:g} s")
    right, wrong = ([score["score"] for score in scores[kind]] for kind in ("right", "wrong"))
    if right and wrong and (right == wrong or sum(right) / len(right) < sum(wrong) / len(wrong)):
        print(
            f"error: wrong answers score as high as right ones; {blind_to(prompt)}. "
            "Give --responses FILE if it asks for another form"
        )
        return 1
    return 1 if failed else 0


def options_of(keywords: Sequence[str]) -> dict[str, Any]:
    """Return the reward_kwargs of texts KEY=VALUE. Raises ResultsError for another text."""
    options: dict[str, Any] = {}
    keys: list[str] = []
    for text in keywords:
        key, equals, _ = text.partition("=")
        if not equals or not key:
            raise ResultsError(f"--keywords {text}: write KEY=VALUE")
        if below(key, keys) or any(below(other, [key]) for other in keys):
            raise ResultsError(f"--keywords {text}: {key} is given twice; leave one out")
        keys.append(key)
        if key in CALLED_WITH:
            raise ResultsError(f"--keywords {text}: is set by the call of your function; give it another name")
        try:
            put(options, key, parse(text).value())  # as reward_kwargs on a command line
        except BadSetting as error:
            raise ResultsError(f"--keywords {error}") from error
    return options


def means(scores: dict[str, list[Score]]) -> str:
    """Return the mean of every key that a run logs, for each kind of response that has a score."""
    parts = []
    for kind, kind_scores in scores.items():
        keys = dict.fromkeys(key for score in kind_scores for key, value in score.items() if isinstance(value, float))
        values = {key: [score[key] for score in kind_scores if key in score] for key in keys}
        parts += [f"mean {key} of {kind} {sum(numbers) / len(numbers):g}" for key, numbers in values.items()]
    return ", ".join(parts)


def _saved_responses(file: Path, paths: list[Path]) -> list[tuple[str, Any]]:
    """Return the responses of a file, each with its ground truth if the line says it."""
    saved = read_lines(file, response_of)[0]
    if not saved:
        raise ResultsError(f"{file}: no response in it; write one a line, as JSON")
    if len(paths) > 1:
        raise ResultsError(f"--responses {file}: is for one file of rows; {len(paths)} were given")
    return saved


def response_of(line: Any) -> tuple[str, Any]:
    """Return the response in a JSON line (a string, a validation sample, or an object with `response`), and its truth.

    Raises ValueError for a response that is not text.
    """
    text = line if isinstance(line, str) else line["response"] if "response" in line else line["output"]
    if not isinstance(text, str):
        raise ValueError(f"the response {text!r:.60} is not text")
    return text, None if isinstance(line, str) else line.get("gts")
