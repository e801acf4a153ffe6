"""Arithmetic of several steps, and a toy model that has still to learn it: reasoning-gym's chain_sum.

    python -m rpg.toy.chain DIRECTORY

writes chain_sum_train.parquet, chain_sum_test.parquet and the model. It is shown solutions of two kinds, as often: term
by term, and the answer at once, which is beyond half a million parameters; and not for long. It then guesses half of
the time, and its steps go wrong: there is more to learn than to be sure of what it knows, as there is in the demo's
sums, and the length of its responses has somewhere to go.
"""

import argparse
import hashlib
import os
import re
import sys
from pathlib import Path

from rpg.data import generated
from rpg.data.build import SPLITS, write_splits
from rpg.data.parquet import Problem
from rpg.data.readers import DataError
from rpg.toy.demo_command import is_whole
from rpg.toy.model import ToyModelSettings, build_trained

TASK = "chain_sum"
SETTINGS = {"min_terms": 3, "max_terms": 4, "min_digits": 1, "max_digits": 1}
TRAIN, TEST, SEED = 6000, 512, 0
# of the responses 4 to 40 tokens are meant to be there; the rest is room to go astray in
MODEL = ToyModelSettings(steps=700, label_smoothing=0.03, accuracy=(0.22, 0.32), evaluate_from=200, max_response=64)


def terms_of(question: str) -> list[int]:
    """The terms of a chain_sum question with their signs: "...: 4 - 3 + 2 =" is [4, -3, 2]."""
    return [int(sign + digits) for sign, digits in re.findall(r"([+-]?) ?(\d+)", question.rpartition(":")[2])]


def solution(problem: Problem) -> str:
    """One running total a line and the answer, or the answer alone: half of the problems each, by their text."""
    first, *rest = terms_of(problem.text)
    total, lines = first, []
    for term in rest:
        lines.append(f"{total}{term:+d}={total + term}")
        total += term
    at_once = hashlib.sha256(problem.text.encode()).digest()[0] % 2
    return "\n".join([*([] if at_once else lines), f"Answer: {total}"])


def prepare(directory: Path) -> None:
    """Data and model in directory; what is there already is kept.

    Raises DataError without reasoning-gym, RuntimeError where the model does not come out as it is meant to be, OSError
    where it cannot be written.
    """
    problems = generated.draw(TASK, SETTINGS, SEED, test=TEST, train=TRAIN)
    if not all((directory / f"{TASK}_{split}.parquet").is_file() for split in SPLITS):
        write_splits(directory, TASK, problems)
    if not is_whole(directory / "model"):
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # as `rpg demo` does, and for its reason
        held_out = problems[: MODEL.test_problems]  # the test problems come first
        build_trained(directory / "model", problems[TEST:], held_out, solution, MODEL)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="python -m rpg.toy.chain", description=__doc__)
    parser.add_argument("directory", type=Path)
    try:
        prepare(parser.parse_args().directory)
    except (DataError, ModuleNotFoundError, OSError, RuntimeError) as error:
        sys.exit(f"chain: {error}")
