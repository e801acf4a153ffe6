"""`rpg data build reasoning-gym:TASK`: what it writes, that the check accepts it, and what it refuses."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rpg import cli
from rpg.data.check import check_files
from rpg.data.gym import settings_of
from rpg.data.readers import DataError
from rpg.data.schema import SCHEMA
from rpg.data.template import format_prompt
from rpg.rewards import compute_score, gym
from rpg.rewards.sources import GYM_TASKS
from tests.gym_library import needs_library

IN_CI = ("chain_sum", "basic_arithmetic", "rearc", "word_sorting", "graph_color", "mini_sudoku")
# with seconds of work for each problem, or files of their own to read
SLOW = ("arc_agi", "intermediate_integration", "knight_swap", "sokoban", "futoshiki", "zebra_puzzles", "quantum_lock")
ANYTHING = "game_of_life_halting"  # the library takes any text for right
NAMES = [name for name in GYM_TASKS if name != ANYTHING]
EVERY = [name if name in IN_CI else pytest.param(name, marks=pytest.mark.full) for name in NAMES]
# they go through sets of texts, whose order is a process's own unless PYTHONHASHSEED is set
UNORDERED = ("isomorphic_strings", "polynomial_multiplication", "ransom_note", "word_ladder")


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
            score = compute_score(row["data_source"], f"Answer: {own}", truth)
            assert (score["score"], score["acc"]) == (1.0, 1.0)


@needs_library
def test_files_are_of_the_recipes_schema_and_can_be_mixed_with_other_sets(tmp_path):
    build(tmp_path, "chain_sum", "--train-size", "3", "--test-size", "2", "--repeat", "2")
    table = pq.read_table(tmp_path / "chain_sum_test.parquet")
    assert table.schema.equals(SCHEMA)
    assert [row["extra_info"]["index"] for row in table.to_pylist()] == [0, 1, 0, 1]


@needs_library
@pytest.mark.parametrize("truth", ["75", None, '{"answer":"3"}', "{"])
def test_a_ground_truth_of_another_form_is_an_error(truth, tmp_path, capsys):
    train, _ = build(tmp_path, "chain_sum", "--train-size", "3", "--test-size", "1")
    train[1]["reward_model"]["ground_truth"] = truth
    broken = tmp_path / "broken.parquet"
    pq.write_table(pa.Table.from_pylist(train, schema=SCHEMA), broken)
    assert check_files([broken]) == 1
    out = capsys.readouterr().out
    assert "error: row 1, reward_model.ground_truth" in out
    assert "rpg data build reasoning-gym:TASK" in out


@needs_library
def test_settings_are_the_tasks_and_travel_with_the_row(tmp_path):
    train, _ = build(tmp_path, "chain_sum", "min_terms=4", "max_terms=4", "--train-size", "20", "--test-size", "1")
    for row in train:
        entry = gym.unpack(row["reward_model"]["ground_truth"])
        assert entry["metadata"]["num_terms"] == 4
        assert entry["config"] == {"min_terms": 4, "max_terms": 4}


@needs_library
def test_lists_become_tuples_where_the_task_has_tuples():
    assert settings_of("number_format", ["max_num_candidates=3"]) == {"max_num_candidates": 3}
    assert settings_of("basic_arithmetic", ["operators=[+,-]"]) == {"operators": ("+", "-")}


@needs_library
def test_the_test_split_does_not_depend_on_the_training_size(tmp_path):
    options = ("--test-size", "5", "--train-size")
    _, few = build(tmp_path / "few", "chain_sum", *options, "3")
    _, many = build(tmp_path / "many", "chain_sum", *options, "30")
    assert few == many


@needs_library
def test_a_task_that_takes_anything_for_right_is_refused(tmp_path, capsys):
    options = ["--train-size", "2", "--test-size", "1", "--out", str(tmp_path)]
    assert cli.main(["data", "build", f"reasoning-gym:{ANYTHING}", "max_simulation_steps=5", *options]) == 1
    assert "0 distinct problems among the first 112 of seed 0, 112 left out: 'no such answer' scores 1" in (
        capsys.readouterr().err
    )


@needs_library
@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (["max_term=3"], "'max_term=3' is no setting of chain_sum; did you mean max_terms?"),
        (["max_terms"], "'max_terms' is no setting"),
        (["seed=3"], "'seed=3' is no setting"),
        (["max_terms=[1"], "cannot be read as YAML"),
    ],
)
def test_settings_that_there_are_not(settings, said):
    with pytest.raises(DataError) as error:
        settings_of("chain_sum", settings)
    assert said in str(error.value)


@needs_library
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["max_terms=1"], "chain_sum does not take max_terms=1: max_terms must be >= min_terms"),
        (["max_terms=2", "max_digits=1"], "200 distinct problems among the first 9316 of seed 0"),
        (["--train-size", "-1"], "give sizes of 0 or more"),
        (["--exclude", "other.parquet"], "leave --from and --exclude out"),
    ],
)
def test_what_cannot_be_built_leaves_no_file(options, said, tmp_path, capsys):
    assert cli.main(["data", "build", "reasoning-gym:chain_sum", *options, "--out", str(tmp_path)]) == 1
    assert said in capsys.readouterr().err
    assert not [*tmp_path.iterdir()]


def test_an_unknown_task_or_set_is_refused_with_the_nearest(capsys):
    for name, said in (
        ("reasoning-gym:chainsum", "nearest name is 'chain_sum'"),
        ("math500", "did you mean math-500?"),
    ):
        with pytest.raises(SystemExit) as ended:
            cli.main(["data", "build", name])
        assert ended.value.code == 2
        assert said in capsys.readouterr().err


def test_settings_are_for_reasoning_gym_alone(capsys):
    assert cli.main(["data", "build", "toy", "max_terms=3"]) == 1
    assert "settings are for reasoning-gym:TASK" in capsys.readouterr().err


def test_without_the_library_the_extra_is_named(monkeypatch, capsys):
    monkeypatch.setattr(gym, "is_installed", lambda: False)
    assert cli.main(["data", "build", "reasoning-gym:chain_sum"]) == 1
    assert "pip install '.[reasoning-gym]'" in capsys.readouterr().err


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
