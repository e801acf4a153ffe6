"""`rpg score --reward FILE ROWS.parquet`: try a custom reward function on a few rows before a run."""

import time
from collections import defaultdict
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from rpg.config.compose import CONFIG_DIR
from rpg.data.diagnostics import shown
from rpg.data.readers import DataError, read_file
from rpg.results.runs import read_lines
from rpg.rewards import Score
from rpg.rewards.user_reward import RewardError, compute_score, example, find_reward, load, shown_score

WRONG = "no such answer"
SHOWN = 60  # shown characters of a response
GIVEN = "given"  # the kind of a response from a file


def try_reward(file: Path, paths: list[Path], responses: Path | None, rows: int) -> int:
    """Score responses to the first rows of each file as a run does; print what it would log, and the times.

    responses: a JSONL file with one response per row, in order; default: each row's answer and a wrong one, both boxed.
    Returns 1 if the file cannot be imported, or the function raised, returned no reward, or scored every wrong answer
    like the right one, else 0.
    Raises RewardError, DataError and ResultsError for files that cannot be used.
    """
    reward = find_reward(file)
    try:
        load(reward.file, reward.function)
    except RewardError as error:
        print(f"error: {error}")
        return 1
    texts = read_lines(responses, response_of)[0] if responses else None
    limit = yaml.safe_load((CONFIG_DIR / "rpg_trainer.yaml").read_text(encoding="utf-8"))["rpg"]["reward_limit"]
    failed, times = 0, []
    scores: dict[str, list[Score]] = defaultdict(list)
    for path in paths:
        for number, (place, row) in enumerate(islice(read_file(path), len(texts) if texts else rows)):
            if missing := {"data_source", "reward_model"} - set(row):
                raise DataError(f"{path}: no column {', '.join(sorted(missing))}; build it with `rpg data build`")
            key = row["reward_model"]["ground_truth"]
            tried = {GIVEN: texts[number]} if texts else {"right": example(key), "wrong": example(WRONG)}
            for kind, response in tried.items():
                begun = time.perf_counter()
                try:
                    score = compute_score(
                        row["data_source"],
                        response,
                        key,
                        row.get("extra_info"),
                        file=reward.file,
                        function=reward.function,
                        reward_limit=limit,
                    )
                except RewardError as error:
                    failed += 1
                    result = str(error)
                else:
                    scores[kind].append(score)
                    result = shown_score(score)
                times.append(time.perf_counter() - begun)
                text = shown(" ".join(response.split()))[:SHOWN]
                print(f"{place}, {kind} ({text}): {result}, {1000 * times[-1]:.1f} ms", flush=True)
    print(f"{Path(reward.file).name}: {means(scores) or 'no score'}; {failed} raised")
    if times:
        mean = 1000 * sum(times) / len(times)
        print(f"{mean:.1f} ms per response, slowest {1000 * max(times):.1f} ms; rpg.reward_limit is {limit:g} s")
    if texts is None and scores["right"] and _values(scores["right"]) == _values(scores["wrong"]):
        print(
            "error: wrong answers score like right ones. The responses tried end in \\boxed{ANSWER} and a line "
            "Answer: ANSWER; give --responses FILE if the function reads another form"
        )
        return 1
    return 1 if failed else 0


def means(scores: dict[str, list[Score]]) -> str:
    """Return the mean of every key that a run logs, for each kind of response that has a score."""
    parts = []
    for kind, kind_scores in scores.items():
        keys = dict.fromkeys(key for score in kind_scores for key, value in score.items() if isinstance(value, float))
        values = {key: [score[key] for score in kind_scores if key in score] for key in keys}
        parts += [f"mean {key} of {kind} {sum(numbers) / len(numbers):g}" for key, numbers in values.items()]
    return ", ".join(parts)


def _values(scores: list[Score]) -> list[float]:
    return [score["score"] for score in scores]


def response_of(line: Any) -> str:
    """Return the response in a JSON line: a string, a validation sample, or an object with `response`."""
    return line if isinstance(line, str) else str(line["response"] if "response" in line else line["output"])
