"""`rpg data build reasoning-gym:TASK`: what it writes, that the check accepts it, and what it refuses."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rpg import cli
from rpg.data.generated import settings_of
from rpg.data.readers import DataError
from rpg.data.row_checks import check_files
from rpg.data.row_model import row_diagnostics
from rpg.data.template import format_prompt
from rpg.rewards import JUDGES, compute_score, gym
from rpg.rewards.data_sources import GYM_TASKS
from tests.gym_library import needs_library

IN_CI = ("chain_sum", "basic_arithmetic", "rearc", "word_sorting", "graph_color", "mini_sudoku")
# with seconds of work for each problem, or files of their own to read
SLOW = ("arc_agi", "intermediate_integration", "knight_swap", "sokoban", "futoshiki", "zebra_puzzles", "quantum_lock")
ANYTHING = "game_of_life_halting"  # the library takes any text for right
NAMES = [name for name in GYM_TASKS if name != ANYTHING]
EVERY = [name if name in IN_CI else pytest.param(name, marks=pytest.mark.full) for name in NAMES]
# they go through sets of texts, whose order is a process's own unless PYTHONHASHSEED is set
UNORDERED = ("intermediate_integration", "isomorphic_strings", "knight_swap", "polynomial_multiplication",
             "ransom_note", "word_ladder")  # fmt: skip


def build(out: Path, task: str, *options: str, code: int = 0) -> tuple[list[dict], list[dict]]:
    assert cli.main(["data", "build", f"reasoning-gym:{task}", *options, "--out", str(out)]) == code
    return tuple(pq.read_table(out / f"{task}_{split}.parquet").to_pylist() for split in ("train", "test"))


@needs_library
@pytest.mark.parametrize("task", EVERY)
def test_what_is_built_is_accepted(task, tmp_path, capsys):
    """Disjoint, distinct, in the one schema; every own answer scores 1.0 and none other than that is written."""
    size = 2 if task in SLOW else 8
    train, test = build(tmp_path, task, "--train-size", str(size), "--test-size", str(size), "--seed", "5")
    assert (len(train), len(test)) == (size, size)
    assert len({row["extra_info"]["raw_problem"] for row in train + test}) == 2 * size
    files = [tmp_path / f"{task}_{split}.parquet" for split in ("train", "test")]
    capsys.readouterr()
    assert check_files(files) == 0, capsys.readouterr().out
    for row in train + test:
        assert row["data_source"] == f"reasoning-gym/{task}"
        assert row["prompt"] == [{"role": "user", "content": format_prompt(row["extra_info"]["raw_problem"])}]
        truth = row["reward_model"]["ground_truth"]
        own = gym.own_answer(truth)
        if own is not None:
            for judge in JUDGES:
                score = compute_score(row["data_source"], f"Answer: {own}", truth, judge=judge)
                assert (score["score"], score["acc"]) == (1.0, 1.0)


@needs_library
@pytest.mark.parametrize(
    "change",
    [
        *({"truth": truth} for truth in ("75", None, '{"answer":"3"}', "{")),
        {"data_source": "reasoning-gym/word_sorting"},
        {"config": {"nokey": 1}},
        {"answer": None},
        {"answer": ""},
        {"metadata": None},
    ],
    ids=str,
)
def test_a_row_of_which_nothing_can_be_learnt_is_an_error(change, tmp_path):
    train, _ = build(tmp_path, "chain_sum", "--train-size", "2", "--test-size", "1")
    row, change = train[1], dict(change)
    truth = gym.unpack(row["reward_model"]["ground_truth"])
    row["data_source"] = change.pop("data_source", row["data_source"])
    row["reward_model"]["ground_truth"] = change.pop("truth") if "truth" in change else gym.pack(truth | change)
    (diagnostic,) = row_diagnostics(row)
    assert (diagnostic.key, diagnostic.level) == ("reward_model.ground_truth", "error")


@needs_library
def test_what_a_program_of_codeio_writes_and_prints_is_nobody_s(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.rglob("*"))
    build(tmp_path / "out", "codeio", "--train-size", "40", "--test-size", "8")
    assert set(tmp_path.rglob("*")) - before == {tmp_path / "out", *(tmp_path / "out").iterdir()}
    assert all(
        "parquet" in line or "left out" in line or "rows read" in line for line in capsys.readouterr().out.splitlines()
    )


@needs_library
def test_settings_are_the_tasks_and_travel_with_the_row(tmp_path):
    train, _ = build(tmp_path, "chain_sum", "min_terms=4", "max_terms=4", "--train-size", "20", "--test-size", "1")
    for row in train:
        entry = gym.unpack(row["reward_model"]["ground_truth"])
        assert entry["metadata"]["num_terms"] == 4
        assert entry["config"] == {"min_terms": 4, "max_terms": 4}


@needs_library
def test_the_test_split_does_not_depend_on_the_training_size(tmp_path):
    options = ("--test-size", "5", "--train-size")
    _, few = build(tmp_path / "few", "chain_sum", *options, "3")
    _, many = build(tmp_path / "many", "chain_sum", *options, "30")
    assert few == many


@needs_library
def test_a_task_that_takes_anything_for_right_is_refused(tmp_path, capsys):
    options = ["--train-size", "2", "--test-size", "1", "--out", str(tmp_path)]
    assert cli.main(["data", "build", f"reasoning-gym:{ANYTHING}", "max_simulation_steps=5", *options]) == 2
    assert "0 distinct problems among the first 112 of seed 0, 112 left out: 'no such answer' scores 1" in (
        capsys.readouterr().err
    )


@needs_library
@pytest.mark.parametrize(
    ("task", "settings"),
    [
        ("chain_sum", "max_term=3"),
        ("chain_sum", "seed=3"),
        ("chain_sum", "max_terms=4 max_digits=2 max_terms=4"),
        ("chain_sum", "allow_negation=1"),
        ("chain_sum", "max_terms=4.5"),
        ("number_format", "min_n=1e-3"),
        ("codeio", "difficulty=hard"),
        ("figlet_font", "static_word=12"),
        ("rearc", "rng_difficulty_ranges=[[0,1,2]]"),
    ],
)
def test_settings_that_do_not_exist_or_are_of_another_type_are_refused(task, settings):
    with pytest.raises(DataError) as error:
        settings_of(task, settings.split(" "))
    assert str(error.value).startswith(repr(settings.split(" ")[-1]))
    assert settings != "max_term=3" or "did you mean max_terms?" in str(error.value)


@needs_library
def test_contamination_is_mended_as_the_check_says(tmp_path, capsys):
    """Problem i of seed 15 is problem i + 15 of seed 0, which is in the training file of that."""
    sizes = ("--train-size", "30", "--test-size", "10")
    build(tmp_path / "one", "chain_sum", *sizes, "--seed", "15")
    build(tmp_path / "two", "chain_sum", *sizes)
    tests, train = str(tmp_path / "one" / "chain_sum_test.parquet"), tmp_path / "two" / "chain_sum_train.parquet"
    assert check_files([train, Path(tests)]) == 1
    assert "contamination: build the training file with --exclude" in capsys.readouterr().out
    written = build(tmp_path / "two", "chain_sum", *sizes, "--exclude", tests)
    out = capsys.readouterr().out
    assert f"{tests}: 10 problems to keep out" in out
    assert "10 left out: in a file of --exclude" in out
    assert [len(rows) for rows in written] == [30, 10]
    assert check_files([train, Path(tests)]) == 0


@needs_library
@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["max_terms=1"], "chain_sum does not take max_terms=1: max_terms must be >= min_terms"),
        (["max_terms=2", "max_digits=1"], "200 distinct problems among the first 9316 of seed 0"),
        (["--train-size", "0", "--test-size", "0"], "0 + 0"),
        (["--exclude", "other.parquet"], "other.parquet: no such file"),
        (["allow_negation=maybe"], "allow_negation=maybe"),
    ],
)
def test_what_cannot_be_built_leaves_no_file(options, message, tmp_path, capsys):
    assert cli.main(["data", "build", "reasoning-gym:chain_sum", *options, "--out", str(tmp_path)]) == 2
    assert message in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


@needs_library
@pytest.mark.full
def test_same_options_give_the_same_bytes_but_where_sets_are_gone_through(tmp_path):
    """In processes of their own: the order of a set of texts differs from one to the next."""
    code = (
        "import sys; from rpg import cli\n"
        "for task in sys.argv[2:]:\n"
        "    options = ['--train-size', '4', '--test-size', '2', '--out', sys.argv[1]]\n"
        "    assert cli.main(['data', 'build', 'reasoning-gym:' + task, *options]) == 0, task\n"
    )
    for seed in ("1", "2"):
        command = [sys.executable, "-c", code, str(tmp_path / seed), *(name for name in NAMES if name not in SLOW)]
        subprocess.run(command, check=True, env={**os.environ, "PYTHONHASHSEED": seed}, timeout=1200)
    files = sorted(path.name for path in (tmp_path / "1").iterdir())
    other = [name for name in files if (tmp_path / "1" / name).read_bytes() != (tmp_path / "2" / name).read_bytes()]
    assert {name.removesuffix(".parquet").rsplit("_", 1)[0] for name in other} <= set(UNORDERED)
