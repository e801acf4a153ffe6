"""`rpg data check`: names row, column and remedy of every corruption."""

import json
from pathlib import Path
from typing import Any

import pytest

from rpg.cli import main
from rpg.data.check import SAMPLE, FileCheck, check_row
from rpg.data.parquet import SCHEMA, Problem, make_row
from rpg.data.template import PREFIX, SUFFIX, format_prompt
from tests.builders.published_files import dapo_problem, dapo_row, write_rows
from tests.builders.toy_run import make_toy

Rows = list[dict[str, Any]]
TRUTH = "reward_model.ground_truth"


def good_rows(split: str = "train", repeat: int = 1) -> Rows:
    problems = [Problem("math-dapo", f"What is the {n}th prime of {split}?", str(n), split) for n in range(6)]
    return [make_row(problem, index) for problem in problems for index in range(repeat)]


def check(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str]:
    code = main(["data", "check", *map(str, arguments)])
    return code, capsys.readouterr().out


def put(row: Any, path: tuple[str | int, ...], value: Any) -> None:
    for key in path[:-1]:
        row = row[key]
    row[path[-1]] = value


CONTENT, RAW, SPLIT = ("prompt", 0, "content"), ("extra_info", "raw_problem"), ("extra_info", "split")
TRUTH_AT = ("reward_model", "ground_truth")
# where, value, the key named, a word of the remedy
CORRUPTIONS = [
    (("prompt",), [None], "prompt", '"role": "user"'),
    (CONTENT, PREFIX + " " + SUFFIX, "prompt", "leave the row out"),
    (CONTENT, "What is 2 + 2?", "prompt", "format_prompt"),
    (("prompt", 0, "role"), "assistant", "prompt", '"role": "user"'),
    (TRUTH_AT, None, TRUTH, "leave the row out"),
    (TRUTH_AT, "nan", TRUTH, "leave the row out"),
    (TRUTH_AT, "Proof", TRUTH, "leave the row out"),
    (TRUTH_AT, True, TRUTH, "leave the row out"),
    (TRUTH_AT, 1500000.75, TRUTH, "leave the row out"),  # as single precision has 1500000.8
]


@pytest.mark.parametrize("case", CORRUPTIONS, ids=lambda case: f"{case[2]} {str(case[1])[:30]!r}")
def test_corrupt_value(case: tuple) -> None:
    path, value, key, remedy = case
    row = good_rows()[3]
    put(row, path, value)
    if path == CONTENT:
        row["extra_info"]["raw_problem"] = None
    check_row(state := FileCheck(Path("x.parquet")), 3, row)
    ((found, said, level),) = state.diagnostics.groups  # one corruption, one diagnostic
    assert (found, level, remedy in said) == (key, "error", True)


@pytest.mark.parametrize("column", ["reward_model", "extra_info"])
def test_a_column_of_json_text_is_named(column: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_rows(tmp_path / "x.parquet", [row | {column: json.dumps(row[column])} for row in good_rows()])
    code, out = check(capsys, path)
    assert (code, "is not a struct\n" in out, "1 files, 6 errors" in out) == (1, True, True)
    if column == "extra_info":
        assert main(["score", str(path)]) == 2
        assert "extra_info: '{" in capsys.readouterr().err


@pytest.mark.parametrize("kind", ["no rows", "truncated", "name"])
def test_corrupt_file(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "x.pq" if kind == "name" else "x.parquet"
    path = write_rows(tmp_path / name, [] if kind == "no rows" else good_rows(), SCHEMA)
    if kind == "truncated":
        path.write_bytes(path.read_bytes()[:1000])
    code, out = check(capsys, path)
    assert code == 1
    assert "error: all rows, file: " in out
    assert "\n    -> " in out


def test_one_problem_with_two_answers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [*good_rows(), make_row(Problem("math-dapo", "What is the 2th prime of train?", "77", "train"))]
    code, out = check(capsys, write_rows(tmp_path / "x.parquet", rows, SCHEMA))
    assert code == 1
    assert f"error: row 6, {TRUTH}: '77', but row 2 " in out


@pytest.mark.parametrize("test_split", ["test", None])
@pytest.mark.parametrize("template", [None, 'Q: {question}\nLast line: "Answer: ..."'])
def test_contamination(template, test_split: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, test = good_rows(), good_rows("test")
    for row in train:
        put(row, CONTENT, format_prompt(row["extra_info"]["raw_problem"], template))
    test[4] = good_rows()[1]
    put(test[4], CONTENT, format_prompt("\ufeffWhat is\u00a0 the 1th prime of train? "))  # spaces do not hide it
    put(test[4], RAW, None)
    for row in test:
        put(row, SPLIT, test_split)
    paths = [write_rows(tmp_path / f"{n}.parquet", rows, SCHEMA) for n, rows in enumerate((train, test))]
    code, out = check(capsys, *reversed(paths))
    assert code == 1
    assert f"error: row 4, prompt: also row 1 of {paths[0]}" in out
    assert "contamination: build the training file with --exclude" in out
    assert check(capsys, paths[1], paths[1])[0] == (test_split is None)  # two files of one split may overlap


def test_released_files_are_read_with_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The published DAPO-Math-17k: text indices, Chinese rows, repeated problems; with the lengths of its prompts."""
    rows = [dapo_row(dapo_problem(n), str(n), f"i{n}") for n in range(24)]
    path = write_rows(tmp_path / "dapo.parquet", rows * 3)
    code, out = check(capsys, path, "--model", make_toy(tmp_path) / "model")
    assert code == 0, out
    assert "; prompts of 123 to 127 tokens, median 127" in out
    assert "72 rows, 24 problems; data_source math_dapo (72); split unknown" in out


@pytest.mark.parametrize(
    ("source", "truths", "judge", "level", "said"),
    [
        ("MATH", ["A", "True", "C"], "release", "error", ["3 of 3", "'Answer: A'", "verified accepts 3 of these"]),
        # judge=release compares the text of integers, and a model writes 27
        ("aime24", ["27.0", "025", "8"], "release", "warning", ["2 of 3", "'Answer: 27'", "verified accepts 2"]),
        ("math_dapo", ['["3"]', "4"], "release", "warning", ["1 of 2", "'Answer: 3'"]),
        ("aime24", ["$1,000$", "1{,}234", "-4", "7 cm", "x=25"], "release", "", []),
    ],
)
def test_truths_that_the_judge_does_not_accept(
    source: str, truths: list[str], judge: str, level: str, said: list[str], tmp_path: Path, capsys
) -> None:
    problems = [Problem(source, f"What is {truth}?", truth, "train") for truth in truths]
    path = write_rows(tmp_path / "x.parquet", [make_row(problem) for problem in problems], SCHEMA)
    code, out = check(capsys, path, "--judge", judge)
    assert code == (level == "error")
    assert (f"{level}: all rows, judge={judge}: " in out) == bool(level)
    assert [text for text in said if text not in out] == []


@pytest.mark.parametrize("form", ["Put it within \\boxed{}.", 'Output the final answer after "####".'])
def test_the_sample_of_truths_is_bounded_and_has_the_form_of_the_prompt(form: str, tmp_path: Path, capsys) -> None:
    rows = good_rows(repeat=200)
    for row in rows:
        put(row, CONTENT, f"{row['extra_info']['raw_problem']} {form}")
    path = write_rows(tmp_path / "x.parquet", rows, SCHEMA)
    assert len(rows) > 2 * SAMPLE
    assert "400 of 400" in check(capsys, path)[1]  # one in three; release reads "Answer:" only
    assert check(capsys, path, "--judge", "verified")[0] == 0
