"""`rpg score ROWS`: what it shows of a reward, what it refuses. tests/rewards/test_own_reward.py: its forms."""

import pytest

from rpg.cli import main
from rpg.data.parquet import repeated_rows, write_together
from rpg.data.toy import toy_problems


@pytest.fixture
def tried(tmp_path, capsys):
    """Return a function that tries a reward on three rows, and returns exit code and output."""
    rows = tmp_path / "rows.parquet"
    write_together({rows: repeated_rows(toy_problems("train", seed=0, count=3))})

    def call(source: str, *options: object) -> tuple[int, str]:
        (tmp_path / "mine.py").write_text(source)
        code = main(["score", str(rows), "--reward", str(tmp_path / "mine.py"), *map(str, options)])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return call


def means(said: str) -> dict[str, list[str]]:
    """Return kind -> the numbers of the last lines."""
    lines = [line.split() for line in said.splitlines()]
    return {line[0]: line[1:] for line in lines if line and line[0] in ("right", "wrong", "given")}


BOXED = 'def reward(response, answer):\n    return f"boxed{{{answer}}}" in response\n'
FAR = "def reward(response, answer):\n    return -1 - abs(float(response.rpartition(':')[2]) - float(answer))"


@pytest.mark.parametrize(
    ("source", "code", "said"),
    [
        (BOXED, 1, "may not see the form that the prompt asks for (Answer: ANSWER)"),
        (FAR, 1, "3 raised"),
        ("import no_such_module\ndef reward(response, answer):\n    return 1.0", 2, "no_such_module"),
    ],
)
def test_faults_of_a_reward(tried, source, code, said):
    """The rows have the paper's prompt."""
    ended, printed = tried(source)
    assert ended == code
    assert said in printed


def test_responses_of_a_file(tried, tmp_path):
    (tmp_path / "responses.jsonl").write_text('"four"\n{"output": "seven77"}\n')
    source = "def reward(response, answer):\n    return len(response)"
    code, said = tried(source, "--responses", tmp_path / "responses.jsonl")
    assert (code, means(said)) == (0, {"given": ["5.5", "5.5"]})
