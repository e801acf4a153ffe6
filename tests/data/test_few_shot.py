"""Prompts of solved examples: which examples, and where the answer of a response ends."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rpg.cli import main
from rpg.rewards import JUDGES, compute_score
from rpg.rewards.extract import example

SUMS = [(a, b) for a in range(6) for b in range(6)]


@pytest.fixture
def table(tmp_path: Path) -> Path:
    file = tmp_path / "sums.csv"
    file.write_text("Q,A\n" + "".join(f"{a} + {b} =,{a + b}\n" for a, b in SUMS))
    return file


def build(table: Path, *options: str) -> dict[str, list[dict]]:
    out = table.parent / "data"
    arguments = ["--from", str(table), "--question", "Q", "--answer", "A", "--data-source", "gsm8k", *options]
    assert main(["data", "build", *arguments, "--test-rows", "8", "--out", str(out)]) == 0
    return {split: pq.read_table(out / f"sums_{split}.parquet").to_pylist() for split in ("train", "test")}


def test_examples_are_other_training_problems(table, capsys):
    (template := table.parent / "example.txt").write_text("{question} {answer}\n")
    rows = build(table, "--few-shot", "3", "--template", str(template))
    training = {row["extra_info"]["raw_problem"] for row in rows["train"]}
    for row in rows["train"] + rows["test"]:
        *solved, asked = row["prompt"][0]["content"].split("\n")
        assert asked == row["extra_info"]["raw_problem"]  # "5 + 3 ="
        questions = [line[: line.index("=") + 1] for line in solved]
        assert len(set(questions)) == 3
        assert set(questions) <= training - {asked}
        assert all(sum(map(int, line[:5].split(" + "))) == int(line.rpartition("=")[2]) for line in solved)
    files = [str(table.parent / f"data/sums_{split}.parquet") for split in rows]
    assert main(["data", "check", *files]) == 0
    assert "0 errors, 0 warnings" in capsys.readouterr().out


@pytest.mark.parametrize("judge", JUDGES)
def test_both_judges_read_the_beginning_of_the_response(table, judge):
    row = build(table, "--few-shot", "2")["test"][0]  # the default: Answer: 7 and an empty line
    assert row["prompt"][0]["content"].endswith(f"{row['extra_info']['raw_problem']}\nAnswer:")
    assert row["data_source"] == "gsm8k/sums"  # verl logs an accuracy for each: two sets of one rule stay two
    truth, extra = row["reward_model"]["ground_truth"], row["extra_info"]
    for response, right in (
        (example(truth, row["prompt"], extra), True),
        (f" {truth}\n\n1 + 1 =\nAnswer: 77\n\n", True),
        (f" 99\n\n1 + 1 =\nAnswer: {truth}", False),
        (f" 99\nAnswer: {truth}\n\n", False),
        (f"Let me see.\n\nAnswer: {truth}", False),
    ):
        assert compute_score(row["data_source"], response, truth, extra, judge=judge)["acc"] == right, response


@pytest.mark.parametrize("judge", JUDGES)
@pytest.mark.parametrize("answer", ["12", "$12$", "5+7=12", "x = 12", "\\boxed{12}"])
def test_an_answer_in_any_form_counts(answer: str, judge: str) -> None:
    for truth in ("12", "2"):
        scored = compute_score("gsm8k", f" {answer}\n", truth, {"answer_end": "\n"}, judge=judge)
        assert scored["acc"] == (truth == "12")
