"""`rpg score ROWS`: what it shows of a reward function, and what it refuses."""

import pytest

from rpg.cli import main
from rpg.data.parquet import repeated_rows, write_together
from rpg.data.toy import toy_problems

SCALED = """
def first(response, answer, scale=1):
    return scale * (answer in response)
def second(response, answer):
    return -float(answer in response)
"""


@pytest.fixture
def tried(tmp_path, capsys):
    """Return a function that tries a reward on rows, and returns exit code and output."""
    rows = tmp_path / "rows.parquet"
    write_together({rows: repeated_rows(toy_problems("train", seed=0, count=3))})

    def call(*options: object, source: str = SCALED) -> tuple[int, str]:
        (tmp_path / "mine.py").write_text(source)
        code = main(["score", str(rows), "--reward", str(tmp_path / "mine.py"), *map(str, options)])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return call


def means(said: str) -> dict[str, list[str]]:
    """Return kind -> the numbers of the last lines."""
    lines = [line.split() for line in said.splitlines()]
    return {line[0]: line[1:] for line in lines if line and line[0] in ("right", "wrong", "given")}


def test_name_and_keywords_are_those_of_a_run(tried):
    code, said = tried("function=first", "scale=2.5")
    assert code == 0
    assert means(said) == {"right": ["2.5", "2.5"], "wrong": ["0", "0"]}
    nested = (
        "def mine(response, answer, weights):\n    return weights['right'] if answer in response else weights['wrong']"
    )
    code, said = tried("weights.right=3", "weights.wrong=-1", source=nested)
    assert (code, means(said)["right"]) == (0, ["3", "3"]), said
    code, said = tried("function=second")
    assert code == 1
    assert "wrong answers score as high as right ones" in said


BOXED = 'def reward(response, answer):\n    return f"boxed{{{answer}}}" in response\n'
FAR = "def reward(response, answer):\n    return -1 - abs(float(response.rpartition(':')[2]) - float(answer))"
VERLS = "data_source, solution_str, ground_truth, extra_info"


@pytest.mark.parametrize(
    ("source", "code", "said"),
    [
        (f"async def mine({VERLS}):\n    return ground_truth in solution_str", 0, "0 raised"),
        ("def reward(response, answer):\n    return 1.0", 1, "wrong answers score as high as right ones"),
        (BOXED, 1, "may not see the form that the prompt asks for (Answer: ANSWER)"),
        ("def reward(response, answer):\n    return 1 / 0", 1, "6 raised"),
        (FAR, 1, "3 raised"),
        ("import no_such_module\ndef reward(response, answer):\n    return 1.0", 2, "no_such_module"),
        ("def reward(response):\n    return 1.0", 2, "mine.py"),
    ],
)
def test_forms_and_faults_of_a_reward(tried, source, code, said):
    """The rows have the paper's prompt. tests/rewards/test_own_reward.py has more forms."""
    ended, printed = tried(source=source)
    assert ended == code
    assert said in printed


def test_responses_of_a_file(tried, tmp_path):
    (tmp_path / "responses.jsonl").write_text('"four"\n{"output": "seven77"}\n')
    source = "def reward(response, answer):\n    return len(response)"
    code, said = tried("--responses", tmp_path / "responses.jsonl", source=source)
    assert code == 0
    assert means(said) == {"given": ["5.5", "5.5"]}
