"""`rpg score --reward FILE ROWS.parquet`: try a custom reward function on a few rows before a run."""

import time
from collections import defaultdict
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import yaml

from rpg.config.compose import CONFIG_DIR, parse
from rpg.data.readers import DataError, read_file
from rpg.diagnostics import printable, shown
from rpg.dotted import put
from rpg.results.messages import ResultsError
from rpg.results.runs import read_lines
from rpg.rewards.user_function import RewardError, reward_file
from rpg.rewards.user_reward import WRONG, blind_to, compute_score, example, load, shown_score


def try_reward(
    file: str, paths: list[Path], responses: Path | None, rows: int, name: str | None, keywords: Sequence[str]
) -> int:
    """Score responses to the first rows of each file as a run does; print what it would log, and the times.

    responses: a JSONL file with one response per row, in order; default: each row's answer and a wrong one, in the
    form that the prompt asks for.
    Returns 1 if the function raises, or scores wrong answers like right ones or above, else 0.
    Raises RewardError, DataError and ResultsError for files that cannot be used.
    """
    file = reward_file(file)
    load(file, name)
    saved = read_lines(responses, response_of, whole=True)[0] if responses else []
    limit = yaml.safe_load((CONFIG_DIR / "rpg_trainer.yaml").read_text(encoding="utf-8"))["rpg"]["reward_limit"]
    options = {"file": file, "function": name, "reward_limit": limit, **options_of(keywords)}
    times, prompt = list[float](), None
    scores: dict[str, list[dict[str, Any]]] = defaultdict(list)
    tried = (row for path in paths for row in islice(read_file(path), len(saved) or rows))
    for number, (place, row) in enumerate(tried):
        model, prompt, extra = row.get("reward_model"), row.get("prompt", ""), row.get("extra_info")
        if not isinstance(model, dict) or "data_source" not in row or "ground_truth" not in model:
            raise DataError(f"{place}: no data_source or ground_truth; build the file with `rpg data build`")
        key = model["ground_truth"]
        if responses and (number >= len(saved) or saved[number][1] not in (None, key)):
            raise ResultsError(f"{responses}: its responses are not to {place}; give one a row, in their order")
        wrong = {"wrong": example(WRONG, prompt, extra)}
        right = {} if key is None else {"right": example(key, prompt, extra)}  # without, the row has only its rule
        for kind, response in ({"given": saved[number][0]} if responses else right | wrong).items():
            begun = time.perf_counter()
            try:
                score = compute_score(row["data_source"], response, key, extra, **options)
                scores[kind].append({**score})
                result = shown_score(score)
            except RewardError as error:
                result = printable(str(error))
            times.append(time.perf_counter() - begun)
            begins = shown(" ".join(response.split()))[:60]
            print(f"{place}, {kind} ({begins}): {result}, {1000 * times[-1]:.1f} ms", flush=True)
    if not times or len(times) < len(saved):
        raise ResultsError(f"{paths[0]}: has {len(times)} rows for {len(saved)} responses; give one a row")
    failed = len(times) - sum(map(len, scores.values()))
    print(f"{Path(file).name}: {means(scores) or 'no score'}; {failed} raised")
    mean, slowest = 1000 * sum(times) / len(times), 1000 * max(times)
    print(f"{mean:.1f} ms per response, slowest {slowest:.1f} ms; rpg.reward_limit is {limit:g} s")
    highs, lows = ([score["score"] for score in scores[kind]] for kind in ("right", "wrong"))
    if highs and lows and (highs == lows or sum(highs) / len(highs) < sum(lows) / len(lows)):
        print(f"error: wrong answers score as high as right ones; {blind_to(prompt)}. "
              "Give --responses FILE if it asks for another form")  # fmt: skip
        return 1
    return int(failed > 0)


def options_of(keywords: Sequence[str]) -> dict[str, Any]:
    """Return the reward_kwargs of texts KEY=VALUE, read as an override. Raises BadSetting for another text."""
    options: dict[str, Any] = {}
    for override in map(parse, keywords):
        put(options, override.key_or_group, override.value())
    return options


def means(scores: dict[str, list[dict[str, Any]]]) -> str:
    """Return the mean of every key that a run logs, for each kind of response that has a score."""
    parts = []
    for kind, own in scores.items():
        for key in dict.fromkeys(key for score in own for key, value in score.items() if isinstance(value, float)):
            values = [score[key] for score in own if key in score]
            parts.append(f"mean {key} of {kind} {sum(values) / len(values):g}")
    return ", ".join(parts)


def response_of(line: Any) -> tuple[str, Any]:
    """Return the response in a JSON line (a string, a validation sample, or an object with `response`), and its truth.

    Raises ValueError for a response that is not text.
    """
    text = line if isinstance(line, str) else line["response"] if "response" in line else line["output"]
    if not isinstance(text, str):
        raise ValueError(f"the response {text!r:.60} is not text")
    return text, None if isinstance(line, str) else line.get("gts")
