"""reasoning-gym's tasks through the installed library: build, score, and what is refused."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rpg import rewards
from rpg.cli import main
from rpg.data.tables import digest

pytest.importorskip("reasoning_gym")  # its pycosat is compiled: scripts/setup.sh says so if that fails

import reasoning_gym

from rpg.data import gym as tasks
from rpg.rewards import gym

REFUSED = {"composite"}
WITHOUT_ANSWER = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}


def build(out: Path, name: str, *options: str) -> dict[str, list[dict]]:
    """Return the rows of both files."""
    sizes = ["--train-size", "30", "--test-size", "10"]
    assert main(["data", "build", name, "--out", str(out), "--name", "g", *sizes, *options]) == 0
    return {split: pq.read_table(out / f"g_{split}.parquet").to_pylist() for split in ("train", "test")}


def score(row: dict, response: str, **extra) -> rewards.Score:
    return rewards.compute_score(row["data_source"], response, None, {**row["extra_info"], **extra})


def test_the_data_source_says_that_the_library_scores(tmp_path, capsys):
    rows = build(tmp_path, "reasoning_gym:chain_sum", "--set", "max_terms=3")
    assert "0 errors, 0 warnings" in capsys.readouterr().out
    row = rows["train"][0]
    assert row["data_source"] == "reasoning_gym/chain_sum"
    assert "<answer>answer here</answer>" in row["prompt"][0]["content"]
    texts = [row["extra_info"]["raw_problem"] for row in rows["train"]]
    assert max(text.count(" + ") + text.count(" - ") for text in texts) == 2  # three terms
    truth = row["reward_model"]["ground_truth"]
    for judge in rewards.JUDGES:
        scored = rewards.compute_score(row["data_source"], f"<answer>{truth}</answer>", None, row["extra_info"],
                                       judge=judge)  # fmt: skip
        assert scored == {"score": 1.0, "acc": 1.0, "pred": truth}
    assert main(["score", str(tmp_path / "g_train.parquet")]) == 0
    assert capsys.readouterr().out.endswith("mean score: right 1, wrong 0\n")


def test_splits_have_no_common_question_and_a_seed_fixes_them(tmp_path):
    """One digit and two terms: 200 questions, so that draws repeat."""
    options = ["--set", "max_terms=2", "max_digits=1", "--seed", "5"]
    rows, again = (build(tmp_path / name, "reasoning_gym:chain_sum", *options) for name in "ab")
    questions = [digest(row["extra_info"]["raw_problem"]) for split in rows.values() for row in split]
    assert len(set(questions)) == len(questions) == 40
    assert rows == again


def test_a_row_without_an_answer_has_the_librarys_metadata(tmp_path):
    row = build(tmp_path, "reasoning_gym:graph_color")["train"][0]
    assert row["reward_model"]["ground_truth"] is None
    _, _, entry = eval(row["extra_info"]["reasoning_gym"])
    coloring = entry["metadata"]["possible_answer"]
    assert all(isinstance(vertex, int) for vertex in coloring)  # JSON would make them text
    assert score(row, f"<answer>{json.dumps(coloring)}</answer>")["acc"] == 1.0
    assert main(["data", "check", str(tmp_path / "g_train.parquet")]) == 0


@pytest.mark.parametrize(
    ("response", "expected"),
    [
        ("<answer>1</answer> or rather <answer> 2 × 2 × 7 </answer>", 1.0),
        ("2 x 2 x 7 = 28\nAnswer: 2 × 2 × 7", 1.0),
        ("<answer>two</answer>", 0.0),  # the library raises: int("two")
        ("2 × 2 × 7", 0.0),  # no form of an answer
    ],
)
def test_the_answer_of_a_response(response, expected):
    entry = {"question": "", "answer": "2 × 2 × 7", "metadata": {}}
    extra = {"reasoning_gym": repr(("prime_factorization", {}, entry))}
    row = {"data_source": "reasoning_gym/prime_factorization", "extra_info": extra}
    assert score(row, response)["score"] == expected
    assert score(row, "2 × 2 × 7\n\nNext: 1", answer_end="\n\n")["score"] == 1.0


def test_options_of_a_task_are_those_of_its_score():
    """decimal_arithmetic accepts an error of one unit in the last of max_num_decimal_places."""
    entry = {"question": "", "answer": "1.05", "metadata": {}}
    rows = [repr(("decimal_arithmetic", {"max_num_decimal_places": places}, entry)) for places in (1, 3)]
    assert [gym.answer("<answer>1.0</answer>", row)[0] for row in rows] == [1.0, 0.0]
    with pytest.raises(ValueError, match="decimal_arithmetics"):  # no score of 0
        gym.answer("<answer>1.0</answer>", rows[0].replace("arithmetic", "arithmetics"))


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["reasoning_gym:chain_sum", "--set", "max_terms=1", "min_terms=1", "max_digits=1", "--train-size", "20"],
         "has 10 distinct problems in 10 x 276 draws; lower --train-size"),
        (["reasoning_gym:chain_sum", "--set", "max_terms=[1"], "max_terms=[1: Hydra cannot read it"),
        (["reasoning_gym:composite"], "Must specify at least one dataset"),
        (["reasoning_gym:chain_sum", "--data-source", "MATH", "--keep", "a"], "--keep, --data-source: without effect"),
        (["gsm8k", "--set", "max_terms=1"], "--set: without effect on gsm8k"),
    ],
)  # fmt: skip
def test_what_is_refused_in_one_line(arguments, named, tmp_path, capsys):
    assert main(["data", "build", *arguments, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert named in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.full
@pytest.mark.parametrize("task", sorted(reasoning_gym.factory.DATASETS.keys() - REFUSED))
def test_every_task(task):
    """The row's score is the library's on the original entry, for its own answer and for others."""
    library = reasoning_gym.create_dataset(task, seed=0, size=5)
    for problem in tasks.problems_of(task, {}, {"train": 3, "test": 2}, 0):
        row, truth = problem.columns["reasoning_gym"], problem.ground_truth
        _, _, entry = eval(row)
        assert (entry["answer"], truth is None) == (truth, task in WITHOUT_ANSWER)
        for answer in (truth, "7", "[[1]]", str(truth)[:-1]):
            given = None if answer is None else answer.strip() or None
            try:
                expected = float(library.score_answer(given, entry))
            except Exception:  # noqa: BLE001
                expected = 0.0
            scored, _ = gym.answer("nothing" if answer is None else f"Well. <answer>{answer}</answer>", row)
            assert scored == (1.0 if answer == truth is not None else expected)
