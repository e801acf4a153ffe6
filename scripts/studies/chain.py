"""Sums and differences of three or four one-digit terms, and a toy model that has yet to learn them.

    python -m scripts.studies.chain DIRECTORY

writes chain_sum_train.parquet, chain_sum_test.parquet and the model. The problems and their reward are those of
reasoning-gym's chain_sum with three or four terms of one digit.

The model is briefly trained on two kinds of solutions in equal numbers: term by term, and the answer alone, which half
a million parameters cannot compute. It then guesses half of the time and makes errors in its steps. Reinforcement
learning can improve its method and its response length, not only its certainty as on the demo's sums.
"""

import argparse
import dataclasses
import hashlib
import re
import sys
from pathlib import Path

from rpg.data.parquet import Problem, write_set
from rpg.diagnostics import UserError
from rpg.registry.datasets import BY_NAME, DataSet
from scripts.toy_model import ToyModelSettings, build_trained

TASK = "chain_sum"
OPTIONS = {"min_terms": 3, "max_terms": 4, "min_digits": 1, "max_digits": 1}
TRAIN, TEST = 6000, 512
# correct responses have 4 to 40 tokens; the rest allows for errors
MODEL = ToyModelSettings(steps=700, label_smoothing=0.03, accuracy=(0.22, 0.32), evaluate_from=200, max_response=64)


def draw(count: int) -> list[Problem]:
    """Return the first `count` distinct problems; the first TEST of them are the test split."""
    from rpg.data import gym  # imports the library

    test = min(TEST, count)
    return gym.problems_of(TASK, OPTIONS, {"test": test, "train": count - test}, 0)


def terms_of(question: str) -> list[int]:
    """Return the signed terms of a chain_sum question: [4, -3, 2] for "...: 4 - 3 + 2 ="."""
    return [int(sign + digits) for sign, digits in re.findall(r"([+-]?) ?(\d+)", question.rpartition(":")[2])]


def solution(problem: Problem) -> str:
    """Return one running total per line and the answer, or the answer alone: half of the problems each, by text."""
    first, *rest = terms_of(problem.text)
    total, lines = first, []
    for term in rest:
        lines.append(f"{total}{term:+d}={total + term}")
        total += term
    at_once = hashlib.sha256(problem.text.encode()).digest()[0] % 2
    return "\n".join([*([] if at_once else lines), f"Answer: {total}"])


def prepare(directory: Path) -> None:
    """Build data and model in a directory; existing files are kept.

    Raises RuntimeError if the model's accuracy is out of range, OSError if a file cannot be written.
    """
    problems = draw(TEST + TRAIN)
    files = DataSet(TASK, "integer", split="both")
    if not all((directory / file).is_file() for file in files.files):
        write_set(directory, files, problems)
    if not (directory / "model").is_dir():
        # the first problems are the test split; by the rule of the toy's sums they are right or wrong
        held_out = [
            dataclasses.replace(p, data_source=BY_NAME["toy"].data_source) for p in problems[: MODEL.test_problems]
        ]
        build_trained(directory / "model", problems[TEST:], held_out, solution, MODEL)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m scripts.studies.chain", description=__doc__)
    parser.add_argument("directory", type=Path)
    try:
        prepare(parser.parse_args().directory)
    except (UserError, OSError, RuntimeError, ModuleNotFoundError) as error:
        sys.exit(f"chain: {error}")
