"""`rpg score FILE --reward`: what it tries, and what it refuses."""

import json
from pathlib import Path

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
    (tmp_path / "mine.py").write_text(SCALED)

    def call(*options: object, source: str = "") -> tuple[int, str]:
        if source:
            (tmp_path / "mine.py").write_text(source)
        code = main(["score", str(rows), "--reward", str(tmp_path / "mine.py"), *map(str, options)])
        captured = capsys.readouterr()
        return code, captured.out + captured.err

    return call


def responses(tmp_path: Path, *lines: object) -> Path:
    file = tmp_path / "responses.jsonl"
    file.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return file


def test_name_and_keywords_are_those_of_a_run(tried):
    code, said = tried("--function", "first", "--keywords", "scale=2.5")
    assert code == 0
    assert "mean score of right 2.5" in said
    assert "mean score of right 0.01" in tried("--function", "first", "--keywords", "scale=1e-2")[1]  # no YAML number
    nested = (
        "def mine(response, answer, weights):\n    return weights['right'] if answer in response else weights['wrong']"
    )
    code, said = tried("--keywords", "weights.right=3", "weights.wrong=-1", source=nested)
    assert (code, "mean score of right 3" in said) == (0, True), said
    code, said = tried("--function", "second", "--rows", "2", source=SCALED)
    assert code == 1
    assert said.count(", right (") == 2
    assert "wrong answers score as high as right ones" in said


BOXED = 'def reward(response, answer):\n    return f"boxed{{{answer}}}" in response\n'
FAR = "def reward(response, answer):\n    return -1 - abs(float(response.rpartition(':')[2]) - float(answer))"
VERLS = "data_source, solution_str, ground_truth, extra_info"


@pytest.mark.parametrize(
    ("source", "code", "said"),
    [
        (f"async def mine({VERLS}):\n    return ground_truth in solution_str", 0, "mean score of right 1"),
        ("def reward(response, answer):\n    return 1.0", 1, "wrong answers score as high as right ones"),
        (BOXED, 1, "may not see the form that the prompt asks for (Answer: ANSWER)"),
        ("def reward(response, answer):\n    return 1 / 0", 1, "6 raised"),
        (FAR, 1, "3 raised"),
        ("def reward(question, output, answer):\n    return 1.0", 2, "reward(response, answer, row=None)"),
        ("import no_such_module\ndef reward(response, answer):\n    return 1.0", 2, "no_such_module"),
        ("def reward(response):\n    return 1.0", 2, "mine.py"),
    ],
)
def test_forms_and_faults_of_a_reward(tried, source, code, said):
    """The rows have the paper's prompt. tests/rewards/test_own_reward.py has more forms."""
    ended, printed = tried(source=source)
    assert ended == code
    assert said in printed
    assert "raised" not in said or "score as high" not in printed


def test_responses_of_a_file(tried, tmp_path):
    given = responses(tmp_path, {"response": "four"}, "seven77")
    code, said = tried("--responses", given, source="def reward(response, answer):\n    return len(response)")
    lines = said.splitlines()
    assert code == 0
    assert ["score 4, acc 4" in lines[0], "score 7, acc 7" in lines[1], "row 2" in lines[2]] == [True, True, False]
    assert lines[2] == "mine.py: mean score of given 5.5, mean acc of given 5.5; 0 raised"
    assert lines[3].endswith("rpg.reward_limit is 300 s")


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([], "give one a row"),
        ([5], "line 1: "),
        ([{"response": None}], "the response None is not text"),
        (["a", "b", "c", "d"], "has 3 rows for 4 responses"),
        ([{"output": "a", "gts": "no such answer"}], "its responses are not to"),
    ],
)
def test_responses_that_are_not_to_the_rows_are_refused(tried, tmp_path, lines, said):
    code, output = tried("--function", "first", "--responses", responses(tmp_path, *lines))
    assert code == 2
    assert said in output


def test_a_file_without_rows_tried_nothing(tmp_path, capsys):
    (tmp_path / "mine.py").write_text("def reward(response, answer):\n    return 1.0\n")
    write_together({tmp_path / "empty.parquet": []})
    assert main(["score", str(tmp_path / "empty.parquet"), "--reward", str(tmp_path / "mine.py")]) == 2
    assert main(["score", str(tmp_path / "empty.parquet"), "--reward", "pkg://no.such.module"]) == 2
    assert "No module named 'no'" in capsys.readouterr().err
