"""`compute_score`: keys, values, unknown sources; the table of verdicts in docs/judges.md."""

from pathlib import Path

import pytest

from rpg.registry.datasets import OF_SPELLING
from rpg.rewards import JUDGES, compute_score, is_known
from rpg.rewards.extract import example


def test_unknown_source_is_named() -> None:
    assert not is_known("my-aime24-copy")
    with pytest.raises(ValueError, match=r"'my-aime24-copy' has no score function.*MATH/NAME"):
        compute_score("my-aime24-copy", "Answer: 1", "1")


@pytest.mark.parametrize("judge", JUDGES)
def test_keys_and_types_are_those_of_both_judges(judge: str) -> None:
    for data_source in OF_SPELLING:
        for response in ("Answer: 12", "", "\udc80Answer: \udc80"):
            result = compute_score(data_source, response, "12", judge=judge)
            assert [*result] == ["score", "acc", "pred"]
            assert [type(value) for value in result.values()] == [float, float, str]
            assert result["acc"] == float(response == "Answer: 12")
            result["pred"].encode()


@pytest.mark.parametrize("judge", JUDGES)
def test_truths_that_are_numbers(judge: str) -> None:
    assert compute_score("MATH", "Answer: 1", True, judge=judge)["acc"] == 0.0
    for truth in (27, 27.0):
        assert example(truth, "Answer:").endswith("Answer: 27")  # what `rpg score` tries
        assert compute_score("amc23", "Answer: 27", truth, judge=judge)["acc"] == 1.0
    assert compute_score("amc23", f"Answer: {2**60 + 1}", 2**60 + 1, judge=judge)["acc"] == 1.0
    assert compute_score("amc23", "Answer: 0.5", 0.5, judge=judge)["acc"] == 1.0


def test_the_verdicts_of_the_page() -> None:
    page = Path(__file__).parents[2] / "docs/judges.md"
    rows = [line.strip("| \n").split(" | ") for line in page.read_text().splitlines() if line.endswith(("✓ |", "✗ |"))]
    assert len(rows) == 10
    for ending, truth, correct, *verdicts in rows:
        source = "math-dapo" if truth == "`42`" else "minerva-math"
        response = "We collect the terms.\n" + ending.strip("`").replace(r"\n", "\n")
        scores = [compute_score(source, response, truth.strip("`"), judge=judge) for judge in JUDGES[:2]]
        assert [score["acc"] > 0 for score in scores] == [verdict == "✓" for verdict in verdicts], ending
        assert [correct] * 2 != verdicts, f"{ending}: both verifiers are right"
