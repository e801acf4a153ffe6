"""docs/judges.md: every row of the table of verdicts, scored."""

from pathlib import Path

from rpg.rewards import JUDGES, compute_score

PAGE = Path(__file__).parents[2] / "docs" / "judges.md"


def test_the_verdicts_of_the_table():
    rows = [line.strip("| \n").split(" | ") for line in PAGE.read_text().splitlines() if line.endswith(("✓ |", "✗ |"))]
    assert len(rows) == 10
    for ending, truth, correct, *verdicts in rows:
        source = "math-dapo" if truth == "`42`" else "minerva-math"
        response = "We collect the terms.\n" + ending.strip("`").replace(r"\n", "\n")
        scores = [compute_score(source, response, truth.strip("`"), judge=judge) for judge in JUDGES[:2]]
        assert [score["acc"] > 0 for score in scores] == [verdict == "✓" for verdict in verdicts], ending
        assert [correct] * 2 != verdicts, f"{ending}: both verifiers are right"
