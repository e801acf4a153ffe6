"""Try a reward function on a few rows before a run (`rpg score ROWS --reward FILE`)."""

import time
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pandas as pd

from rpg.config.compose import parse
from rpg.data.readers import read_file
from rpg.diagnostics import shown
from rpg.dotted import put
from rpg.results.runs import read_lines
from rpg.rewards.user_function import RewardError, reward_file
from rpg.rewards.user_reward import WRONG, blind_to, compute_score, example, load, shown_score

ROWS = 5  # tried without --responses


def try_reward(reward: str, rows: Path, keywords: Sequence[str], responses: Path | None) -> int:
    """Score responses to the first rows as a run does; print what it would log, and the times.

    keywords: KEY=VALUE, the reward_kwargs of a run. responses: JSON lines, a text or saved sample for each row; None:
    the row's answer and a wrong one.

    Returns 1 if the function raises, or scores wrong answers like right ones or above, else 0.
    """
    options: dict[str, Any] = {"file": reward_file(reward)}
    for one in map(parse, keywords):
        put(options, one.key_or_group, one.value())
    load(options["file"], options.get("function"))
    lines = read_lines(responses) if responses else []
    saved = [line if isinstance(line, str) else line["output"] for line in lines]
    scores, failed, prompt = list[dict[str, Any]](), 0, None
    for number, (place, row) in enumerate(islice(read_file(rows), len(saved) or ROWS)):
        key, extra, prompt = row["reward_model"]["ground_truth"], row.get("extra_info"), row.get("prompt", "")
        answers = {"wrong": WRONG} if key is None else {"right": key, "wrong": WRONG}  # a row may have only its rule
        made = {kind: example(answer, prompt, extra) for kind, answer in answers.items()}
        for kind, response in ({"given": saved[number]} if saved else made).items():
            begun = time.perf_counter()
            try:
                score = compute_score(row["data_source"], response, key, extra, **options)
                scores.append({**score, "kind": kind})
                result = shown_score(score)
            except RewardError as error:
                failed, result = failed + 1, str(error)
            begins = shown(" ".join(response.split()))[:60]
            print(f"{place}, {kind} ({begins}): {result}, {1000 * (time.perf_counter() - begun):.1f} ms", flush=True)
    print(f"{failed} raised")
    if not scores:
        return 1
    means: Any = pd.DataFrame(scores).groupby("kind").mean(numeric_only=True)
    print("mean", means.to_string(float_format="{:g}".format), sep="\n")
    if {"right", "wrong"} <= {*means.index} and means.loc["right", "score"] <= means.loc["wrong", "score"]:
        print(f"error: wrong answers score as high as right ones; {blind_to(prompt)}. "
              "Give --responses FILE if it asks for another form")  # fmt: skip
        return 1
    return int(failed > 0)
