"""The process that gym.py starts: reasoning-gym loaded once, and forked children that score answers with it."""

import functools
import json
import logging
import math
import os
import warnings

from rpg.rewards.gym import load, unpack
from rpg.rewards.wall_helper import serve

DATASETS = load()


@functools.lru_cache(maxsize=8)
def task_of(name: str, config: str):
    """The dataset whose score_answer it is; `config` is JSON of its settings, as a key of the cache."""
    dataset, settings = DATASETS[name]
    return dataset(config=settings(**unpack(config)))


def score(task: str, truth: str, answer: str | None) -> str:
    """JSON: {"score": what score_answer returns}, or {"error": why there is no finite one}."""
    entry = unpack(truth)
    config = json.dumps(json.loads(truth)["config"])
    try:
        value = float(task_of(task, config).score_answer(answer, {**entry, "question": ""}))
    except Exception as error:  # noqa: BLE001  # whatever a task raises at what a model wrote
        return json.dumps({"error": f"score_answer raised {type(error).__name__}: {error}"[:500]})
    return json.dumps({"score": value} if math.isfinite(value) else {"error": f"score_answer returned {value}"})


def warm_up() -> None:
    """Score one answer; nothing of what tasks print or warn of reaches the worker's output from here on."""
    logging.disable(logging.CRITICAL)
    warnings.simplefilter("ignore")
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    score("chain_sum", '{"answer":"3","config":{},"metadata":{}}', "3")


if __name__ == "__main__":
    serve(score, warm_up)
