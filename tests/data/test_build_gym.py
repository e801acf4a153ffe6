"""`rpg data build reasoning-gym:TASK`: what it writes, that the check accepts it, and what it refuses."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml

from rpg import cli
from rpg.data.check import check_files
from rpg.data.gym import RESERVED, settings_of
from rpg.data.readers import DataError
from rpg.data.schema import SCHEMA
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


def said_of_row_1(rows: list[dict], directory: Path, capsys) -> str:
    """What the check prints of a file of these rows, of which it refuses row 1 for its ground truth."""
    broken = directory / "broken.parquet"
    pq.write_table(pa.Table.from_pylist(rows, schema=SCHEMA), broken)
    capsys.readouterr()
    assert check_files([broken]) == 1
    out = capsys.readouterr().out
    assert "error: row 1, reward_model.ground_truth" in out
    return out


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
    assert "rpg data build reasoning-gym:TASK" in said_of_row_1(train, tmp_path, capsys)


@needs_library
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"data_source": "reasoning-gym/word_sorting"}, "it is of 'chain_sum', not of reasoning-gym/word_sorting"),
        ({"config": {"nokey": 1}}, "scores 0: nothing can be learnt"),
        ({"answer": None}, "no answer, which rows of reasoning-gym/chain_sum have"),
        ({"answer": ""}, "its own answer, '', scores 0: nothing can be learnt"),
        ({"metadata": None}, "metadata None is no mapping"),
    ],
)
def test_a_row_of_which_nothing_can_be_learnt_is_an_error(change, said, tmp_path, capsys):
    train, _ = build(tmp_path, "chain_sum", "--train-size", "3", "--test-size", "1")
    truth = gym.unpack(train[1]["reward_model"]["ground_truth"])
    train[1]["data_source"] = change.pop("data_source", train[1]["data_source"])
    train[1]["reward_model"]["ground_truth"] = gym.pack(truth | change)
    assert said in said_of_row_1(train, tmp_path, capsys)


@needs_library
def test_a_problem_that_cannot_be_kept_is_left_out(tmp_path, capsys):
    """gsm_symbolic's metadata hold Fractions now and then."""
    build(tmp_path, "gsm_symbolic", "--train-size", "50", "--test-size", "10")
    assert "left out: its metadata cannot be written as JSON (Object of type Fraction" in capsys.readouterr().out


@needs_library
def test_what_a_program_of_codeio_writes_and_prints_is_nobody_s(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.rglob("*"))
    build(tmp_path / "out", "codeio", "--train-size", "40", "--test-size", "8")
    assert set(tmp_path.rglob("*")) - before == {tmp_path / "out", *(tmp_path / "out").iterdir()}
    assert all("parquet" in line or "left out" in line for line in capsys.readouterr().out.splitlines())


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
        (["max_terms=2020-13-45"], "cannot be read as YAML (month must be in 1..12)"),
        (["max_terms=4", "max_digits=2", "max_terms=4"], "'max_terms=4': max_terms stands there twice"),
    ],
)
def test_settings_that_there_are_not(settings, said):
    with pytest.raises(DataError) as error:
        settings_of("chain_sum", settings)
    assert said in str(error.value)


@needs_library
@pytest.mark.parametrize(
    ("task", "setting", "said"),
    [
        ("chain_sum", "allow_negation=1", "Input should be a valid boolean, not 1; values are YAML"),
        ("chain_sum", "max_terms=4.5", "Input should be a valid integer, not 4.5"),
        ("chain_sum", "max_terms=true", "Input should be a valid integer, not True"),
        ("chain_sum", "max_terms=", "Input should be a valid integer, not None"),
        (
            "number_format",
            "min_n=1e-3",
            "Input should be a valid number, not '1e-3'; values are YAML: true is a bool, 1.0e-3",
        ),
        ("number_format", "min_n=.inf", "Input should be a finite number, not inf"),
        ("codeio", "difficulty=hard", "Input should be a valid integer, not 'hard'"),
        ("figlet_font", "static_word=12", "Input should be a valid string, not 12"),
        ("basic_arithmetic", "operators=+", "Input should be a valid array, not '+'"),
        ("basic_arithmetic", "format_style=plain", "Input should be 'simple' or 'natural', not 'plain'"),
        ("countdown", "operators=[+,1]", "Input should be a valid string, not ['+', 1]"),
        (
            "rearc",
            "rng_difficulty_ranges=[[0,1,2]]",
            "Tuple should have at most 2 items after validation, not 3, not [[0, 1, 2]]",
        ),
    ],
)
def test_values_of_another_type_are_refused(task, setting, said):
    with pytest.raises(DataError) as error:
        settings_of(task, [setting])
    assert str(error.value).startswith(f"{setting!r}: ")
    assert said in str(error.value)


@needs_library
def test_every_default_can_be_given_but_what_no_text_holds():
    """So that the type found for a key is the one its task has in mind."""
    held = {}
    for task in GYM_TASKS:
        config = gym.load()[task][1]
        assert settings_of(task, []) == {}
        settings = {}
        for field in dataclasses.fields(config):
            default = getattr(config(), field.name)
            if field.name in RESERVED:
                continue
            try:
                text = yaml.safe_dump(default, default_flow_style=True, width=10**6)
                settings |= settings_of(task, [f"{field.name}={text}"])
            except (DataError, yaml.YAMLError):
                with pytest.raises(DataError, match="cannot be set here: it holds a ") as error:
                    settings_of(task, [f"{field.name}={{}}"])
                held[f"{task} {field.name}"] = str(error.value).rpartition(" a ")[2].partition(";")[0]
        config(**settings)
        assert gym.unpack(gym.pack(settings)) == settings
    assert held == {
        "aiw task_types": "TaskType",
        "arc_agi board_format_opts": "BoardFormattingOptions",
        "rearc board_format_opts": "BoardFormattingOptions",
        "time_intervals min_time": "time",
        "time_intervals max_time": "time",
        "time_intervals min_date": "date",
        "time_intervals max_date": "date",
        "word_sorting transformation": "TextTransformation",
    }


@needs_library
def test_a_file_of_an_earlier_build_does_not_stay_beside_a_new_one(tmp_path, capsys):
    build(tmp_path, "chain_sum", "--train-size", "40", "--test-size", "20")
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    command = ["data", "build", "reasoning-gym:chain_sum", "--train-size", "100", "--test-size", "0", "--out"]
    assert cli.main([*command, str(tmp_path)]) == 1
    error = capsys.readouterr().err
    assert f"{tmp_path / 'chain_sum_test.parquet'} is there already, and with --test-size 0" in error
    assert "give another --out, or remove it" in error
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before
    assert cli.main([*command, str(tmp_path / "other")]) == 0
    assert [path.name for path in (tmp_path / "other").iterdir()] == ["chain_sum_train.parquet"]


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
    assert "10 left out: stands in a file of --exclude" in out
    assert [len(rows) for rows in written] == [30, 10]
    assert check_files([train, Path(tests)]) == 0


@needs_library
@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["max_terms=1"], "chain_sum does not take max_terms=1: max_terms must be >= min_terms"),
        (["max_terms=2", "max_digits=1"], "200 distinct problems among the first 9316 of seed 0"),
        (["--train-size", "-1"], "give sizes of 0 or more"),
        (["--train-size", "0", "--test-size", "0"], "give sizes of 0 or more, not both 0"),
        (["--exclude", "other.parquet"], "other.parquet: no such file"),
        (["allow_negation=maybe"], "Input should be a valid boolean, not 'maybe'"),
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
