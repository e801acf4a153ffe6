"""The toy task: right sums, disjoint splits, readable by verl's own loader."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rpg.cli import main
from rpg.data.schema import SCHEMA
from rpg.data.template import format_prompt
from rpg.data.toy import problem_text, split_of, toy_problems
from rpg.rewards import compute_score


def build(folder: Path, *options: str) -> tuple[list[dict], list[dict]]:
    assert main(["data", "build", "toy", "--out", str(folder), *options]) == 0
    train = pq.read_table(folder / "toy_train.parquet")
    test = pq.read_table(folder / "toy_test.parquet")
    assert train.schema.equals(SCHEMA)
    assert test.schema.equals(SCHEMA)
    return train.to_pylist(), test.to_pylist()


def test_files_hold_distinct_problems_of_disjoint_splits(tmp_path: Path) -> None:
    train, test = build(tmp_path)
    assert (len(train), len(test)) == (2048, 256)
    train_problems = {row["extra_info"]["raw_problem"] for row in train}
    test_problems = {row["extra_info"]["raw_problem"] for row in test}
    assert (len(train_problems), len(test_problems)) == (2048, 256)
    assert not train_problems & test_problems


def test_rows_follow_the_schema_of_the_recipe(tmp_path: Path) -> None:
    row = build(tmp_path)[0][0]
    text = row["extra_info"]["raw_problem"]
    first, second = text.removeprefix("What is ").removesuffix("?").split(" + ")
    assert row == {
        "data_source": "toy_sum",
        "prompt": [{"role": "user", "content": format_prompt(text)}],
        "ability": "MATH",
        "reward_model": {"ground_truth": str(int(first) + int(second)), "style": "rule-lighteval/MATH_v2"},
        "extra_info": {"index": 0, "raw_problem": text, "split": "train"},
    }
    assert compute_score("toy_sum", f"Answer: {int(first) + int(second)}", row["reward_model"]["ground_truth"])["acc"]


def test_a_pair_keeps_its_split_when_seed_and_order_change() -> None:
    test_texts = {problem.text for seed in range(5) for problem in toy_problems("test", seed, 200)}
    assert all(problem.text not in test_texts for problem in toy_problems("train", 9, 2000))
    assert all(split_of(a, b) == split_of(b, a) for a in range(40) for b in range(40))
    assert problem_text(27, 48) == "What is 27 + 48?"


def test_same_options_give_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        build(tmp_path / name, "--seed", "3", "--train-size", "50", "--test-size", "20")
    for file in ("toy_train.parquet", "toy_test.parquet"):
        assert (tmp_path / "one" / file).read_bytes() == (tmp_path / "two" / file).read_bytes()


def test_too_many_rows_are_refused_with_the_remedy(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = main(["data", "build", "toy", "--out", str(tmp_path), "--high", "9", "--train-size", "500"])
    assert code == 1
    error = capsys.readouterr().err
    assert "500 rows asked for" in error
    assert "widen the operand range" in error
    assert not list(tmp_path.iterdir())
