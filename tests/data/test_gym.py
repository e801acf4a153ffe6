"""reasoning-gym's tasks through the installed library: build, score, and what is refused."""

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rpg.cli import main
from rpg.data.build import digest
from rpg.data.check import GYM_REWARD

pytest.importorskip("reasoning_gym")  # its pycosat is compiled: scripts/setup.sh says so if that fails

from rpg.data import gym as tasks
from rpg.data.build import Report
from rpg.rewards import gym, user_reward

REFUSED = {
    "composite": "reasoning-gym has no such task",
    "game_of_life_halting": "scores the answer 'no such answer' 1.0",
}
WITHOUT_ANSWER = {"boxnet", "graph_color", "propositional_logic", "rubiks_cube", "rush_hour"}


def build(out: Path, name: str, *options: str) -> dict[str, list[dict]]:
    """Return the rows of both files."""
    sizes = ["--train-size", "30", "--test-size", "10"]
    assert main(["data", "build", name, "--out", str(out), "--name", "g", *sizes, *options]) == 0
    return {split: pq.read_table(out / f"g_{split}.parquet").to_pylist() for split in ("train", "test")}


def test_two_tasks_are_scored_by_the_library(tmp_path, capsys):
    rows = build(tmp_path, "reasoning_gym:chain_sum,leg_counting", "--set", "chain_sum.max_terms=3")
    assert f"--reward {GYM_REWARD}" in capsys.readouterr().out
    sources = [row["data_source"] for row in rows["train"]]
    assert sources == ["reasoning_gym/chain_sum"] * 30 + ["reasoning_gym/leg_counting"] * 30
    assert "<answer>answer here</answer>" in rows["train"][0]["prompt"][0]["content"]
    terms = [row["extra_info"]["raw_problem"].count(" + ") + row["extra_info"]["raw_problem"].count(" - ")
             for row in rows["train"][:30]]  # fmt: skip
    assert max(terms) == 2  # three terms
    files = [str(tmp_path / f"g_{split}.parquet") for split in ("train", "test")]
    assert main(["score", *files, "--reward", GYM_REWARD, "--rows", "3"]) == 0
    assert "mean score of right 1, mean acc of right 1," in capsys.readouterr().out
    assert main(["data", "check", *files, "--reward", GYM_REWARD]) == 0
    assert main(["data", "check", *files]) == 1
    assert f"give --reward {GYM_REWARD}" in capsys.readouterr().out


def test_splits_have_no_common_question_and_a_seed_fixes_the_files(tmp_path):
    """One digit and two terms: 200 questions, so that draws repeat."""
    options = ["--set", "max_terms=2", "max_digits=1", "--seed", "5"]
    rows = build(tmp_path / "a", "reasoning_gym:chain_sum", *options)
    questions = [digest(row["extra_info"]["raw_problem"]) for split in rows.values() for row in split]
    assert len(set(questions)) == len(questions) == 40
    build(tmp_path / "b", "reasoning_gym:chain_sum", *options)
    for split in rows:
        assert len({(tmp_path / name / f"g_{split}.parquet").read_bytes() for name in "ab"}) == 1


def test_a_row_without_an_answer_has_the_librarys_metadata(tmp_path, capsys):
    rows = build(tmp_path, "reasoning_gym:graph_color")["train"]
    extra = rows[0]["extra_info"]
    assert rows[0]["reward_model"]["ground_truth"] is None
    _, _, entry = gym.read_entry(extra["reasoning_gym"], extra["raw_problem"])
    coloring = entry["metadata"]["possible_answer"]
    assert all(isinstance(vertex, int) for vertex in coloring)  # JSON alone would make them text
    answer = f"<answer>{str({str(k): v for k, v in coloring.items()}).replace(chr(39), chr(34))}</answer>"
    scored = user_reward.compute_score("", answer, None, extra, file=GYM_REWARD, function="compute_score")
    assert (scored["score"], scored["raised"]) == (1.0, 0.0)
    assert main(["score", str(tmp_path / "g_train.parquet"), "--reward", GYM_REWARD]) == 0
    assert "mean score of wrong 0" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("response", "score", "raised"),
    [
        ("<answer>1</answer> or rather <answer> 2 × 2 × 7 </answer>", 1.0, 0.0),
        ("2 x 2 x 7 = 28\nAnswer: 2 × 2 × 7", 1.0, 0.0),
        ("It is \\boxed{2 × 2 × 7}", 1.0, 0.0),
        ("<answer>two</answer>", 0.0, 1.0),  # the library raises: int("two")
        ("2 × 2 × 7", 0.0, 0.0),  # no form of an answer
    ],
)
def test_the_answer_of_a_response(response, score, raised):
    entry = {"question": "", "answer": "2 × 2 × 7", "metadata": {}}
    extra = {"reasoning_gym": gym.entry_text("prime_factorization", {}, entry), "raw_problem": ""}
    scored = gym.compute_score("", response, entry["answer"], extra)
    assert (scored["score"], scored["acc"], scored["raised"]) == (score, score, raised)
    assert gym.compute_score("", "2 × 2 × 7\n\nNext: 1", "", {**extra, "answer_end": "\n\n"})["score"] == 1.0


def test_options_of_a_task_are_those_of_its_score():
    """decimal_arithmetic accepts an error of one unit in the last of max_num_decimal_places."""
    entry = {"question": "", "answer": "1.05", "metadata": {}}
    scores = []
    for places in (1, 3):
        text = gym.entry_text("decimal_arithmetic", {"max_num_decimal_places": places}, entry)
        scores.append(gym.compute_score("", "<answer>1.0</answer>", "", {"reasoning_gym": text})["score"])
    assert scores == [1.0, 0.0]


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (["reasoning_gym"], "name a task, as reasoning_gym:chain_sum"),
        (["reasoning_gym:chain_sums"], "chain_sums: reasoning-gym has no such task; did you mean chain_sum?"),
        (["reasoning_gym:chain_sum", "--set", "min_term=2"], "unexpected keyword argument 'min_term'"),
        (["reasoning_gym:chain_sum", "--set", "min_terms=9"],
         "refuses --set min_terms=9 (AssertionError: max_terms must be >= min_terms)"),
        (["reasoning_gym:chain_sum", "--set", "seed=9"], "--set seed=9: write KEY=VALUE; --seed"),
        (["reasoning_gym:chain_sum", "--set", "min_terms"], "--set min_terms: write KEY=VALUE"),
        (["reasoning_gym:chain_sum,gcd", "--set", "min_terms=3"], "write TASK.KEY=VALUE, as chain_sum.min_terms"),
        (["reasoning_gym:chain_sum", "--set", "max_terms=1", "min_terms=1", "max_digits=1", "--train-size", "20"],
         "has 10 distinct problems in 10 x 276 draws; lower --train-size"),
        (["reasoning_gym:rush_hour", "--few-shot", "2", "--train-size", "4"], "has no answers to show"),
        (["toy", "--set", "min_terms=3"], "--set is for reasoning_gym"),
        *((["reasoning_gym:" + task], message) for task, message in REFUSED.items()),
    ],
)  # fmt: skip
def test_what_is_refused_in_one_line(arguments, named, tmp_path, capsys):
    assert main(["data", "build", *arguments, "--out", str(tmp_path / "out")]) == 2
    said = capsys.readouterr().err
    assert named in said
    assert len(said.splitlines()) == 1
    assert not (tmp_path / "out").exists()


def test_a_row_of_another_build_is_refused():
    with pytest.raises(gym.RewardError, match="'chain_sum' has no extra_info"):
        gym.compute_score("chain_sum", "Answer: 3", "3", {"index": 0})


@pytest.mark.slow
@pytest.mark.parametrize("task", sorted(gym.TASKS.keys() - REFUSED.keys()))
def test_every_task(task):
    """Five problems: the row's score is the library's on the original entry, and 1.0 for the library's own answer."""
    sizes, own = {"train": 3, "test": 2}, []
    library = gym.reasoning_gym.create_dataset(task, seed=0, size=5)
    for problem in tasks.problems_of(task, {}, sizes, 0, Report()):
        extra = {**problem.columns, "raw_problem": problem.text}
        _, _, entry = gym.read_entry(extra["reasoning_gym"], problem.text)
        truth = entry["answer"]
        assert problem.ground_truth == truth
        for answer in (truth, "", "7", "[[1]]", str(truth)[:-1], f"{truth} "):
            response = "nothing" if answer is None else f"Well. <answer>{answer}</answer>"
            expected = gym.score_of(library, gym.answer_of(response), entry)[0]
            assert gym.compute_score("", response, truth, extra)["score"] == expected
        own.append(gym.compute_score("", f"<answer>{truth}</answer>", truth, extra)["score"])
    assert (task in WITHOUT_ANSWER) == (truth is None)
    assert truth is None or own == [1.0] * 5
