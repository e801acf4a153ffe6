"""`rpg score ROWS`: what it shows of a reward, what it refuses. tests/rewards/test_own_reward.py: its forms."""

import pytest

from rpg.cli import main
from rpg.data.parquet import write
from rpg.data.toy import toy_problems


@pytest.fixture
def tried(tmp_path, capsys):
    """Return a function that tries a reward on three rows, and returns exit code and output."""
    rows = tmp_path / "rows.parquet"
    write({rows: list(toy_problems("train", seed=0, count=3))})

    def call(source: str) -> tuple[int, str]:
        (tmp_path / "mine.py").write_text(source)
        code = main(["score", str(rows), "--reward", str(tmp_path / "mine.py")])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return call


BOXED = 'def reward(response, answer):\n    return f"boxed{{{answer}}}" in response\n'
FAR = "def reward(response, answer):\n    return -1 - abs(float(response.rpartition(':')[2]) - float(answer))"


@pytest.mark.parametrize(
    ("source", "code", "said"),
    [
        (BOXED, 1, "may not see the form that the prompt asks for (Answer: ANSWER)"),
        (FAR, 1, "3 raised"),
    ],
)
def test_faults_of_a_reward(tried, source, code, said):
    """The rows have the paper's prompt."""
    ended, printed = tried(source)
    assert ended == code
    assert said in printed
