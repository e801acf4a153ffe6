"""`rpg score --reward FILE ROWS.parquet`: try a custom reward function on a few rows before a run."""

import asyncio
import inspect
import time
import traceback
from itertools import islice
from pathlib import Path
from typing import Any

from rpg.data.diagnostics import shown
from rpg.data.readers import DataError, read_file
from rpg.results.runs import read_lines
from rpg.rewards.user_reward import RewardError, as_score, find_reward

WRONG = "no such answer"
SHOWN = 60  # shown characters of a response


def try_reward(file: Path, paths: list[Path], responses: Path | None, rows: int) -> int:
    """Score responses to the first rows of each file and print score, accuracy and time of each.

    responses: a JSONL file with one response per row, in order; default: each row's answer and a wrong one, both boxed.
    Returns 1 if the function raised, returned no number, or scored every wrong answer like the right one, else 0.
    Raises RewardError, DataError and ResultsError for files that cannot be used.
    """
    reward = find_reward(file)
    try:
        function = reward.as_verl_calls_it()
    except Exception as error:  # an error in the file's imports
        raise RewardError(f"{file}: cannot be imported: {type(error).__name__}: {error}") from error
    given = read_lines(responses, response_of)[0] if responses else None
    failed, slowest, scores = 0, 0.0, {"right": [], "wrong": [], "given": []}
    for path in paths:
        for number, (place, row) in enumerate(islice(read_file(path), len(given) if given else rows)):
            if missing := {"data_source", "reward_model"} - set(row):
                raise DataError(f"{path}: no column {', '.join(sorted(missing))}; build it with `rpg data build`")
            key = row["reward_model"]["ground_truth"]
            tried = {"given": given[number]} if given else {"right": boxed(key), "wrong": boxed(WRONG)}
            for kind, response in tried.items():
                begun = time.perf_counter()
                try:
                    value = function(row["data_source"], response, key, row.get("extra_info"))
                    score = as_score(asyncio.run(value) if inspect.iscoroutine(value) else value, str(file))
                except Exception as error:  # noqa: BLE001  # whatever a user's function raises
                    failed += 1
                    where = traceback.extract_tb(error.__traceback__)[-1]
                    result = f"{type(error).__name__}: {error} ({where.filename}, line {where.lineno})"
                else:
                    scores[kind].append(score["score"])
                    result = f"score {score['score']:g}, acc {score['acc']:g}"
                seconds = time.perf_counter() - begun
                slowest = max(slowest, seconds)
                text = shown(" ".join(response.split()))[:SHOWN]
                print(f"{place}, {kind} ({text}): {result}, {1000 * seconds:.1f} ms", flush=True)
    means = ", ".join(f"mean score of {kind} {sum(own) / len(own):g}" for kind, own in scores.items() if own)
    print(f"{reward.file.name}: {means or 'no score'}; slowest {1000 * slowest:.1f} ms; {failed} raised")
    if given is None and scores["right"] and scores["right"] == scores["wrong"]:
        print(
            "error: wrong answers score like right ones. The responses tried end in \\boxed{ANSWER} and a line "
            "Answer: ANSWER; give --responses FILE if the function reads another form"
        )
        return 1
    return 1 if failed else 0


def response_of(line: Any) -> str:
    """Return the response in a JSON line: a string, a validation sample, or an object with `response`."""
    return line if isinstance(line, str) else str(line["response"] if "response" in line else line["output"])


def boxed(answer: Any) -> str:
    """Return a response with this answer in both forms that reward functions usually read."""
    return f"The answer is \\boxed{{{answer}}}.\n\nAnswer: {answer}"
