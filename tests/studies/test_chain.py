"""The chain task: both kinds of solutions are correct and fit the configured lengths."""

import hashlib

import pytest

from rpg.rewards import compute_score
from scripts.studies import chain

pytest.importorskip("reasoning_gym")  # not in the GPU environment

DIGEST = "051b1ff0dbfd97e3551d7cd7dbcd3f2c90e88ec5de1a044305a9ea2a2c588a17"


def test_the_problems_are_reasoning_gyms():
    """The digest is of reasoning-gym 0.1.25's problems with seed 0, which the studies used."""
    drawn = chain.draw(chain.TEST + chain.TRAIN)
    text = "\n".join(f"{problem.split} {problem.text} {problem.ground_truth}" for problem in drawn)
    assert hashlib.sha256(text.encode()).hexdigest() == DIGEST


def test_every_solution_is_right_and_half_of_them_are_worked_out():
    problems = chain.draw(64)
    texts = [chain.solution(problem) for problem in problems]
    for problem, text in zip(problems, texts, strict=True):
        assert compute_score(problem.data_source, text, None, dict(problem.columns))["acc"] == 1, (problem.text, text)
    assert 0.3 < sum("=" in text for text in texts) / len(texts) < 0.7
