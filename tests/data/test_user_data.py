"""`rpg data build --from FILE`: custom tables, and gsm8k and math in their published schema."""

import gzip
import json
from argparse import Namespace
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rpg.cli import main
from rpg.data.data_command import table

NONE = ["--train-size", 0, "--test-size", 0]
QA = ["--question", "Q", "--answer", "A", "--data-source", "MATH"]


def build(*arguments: object) -> int:
    return main(["data", "build", *map(str, arguments)])


def rows_of(folder: Path, name: str) -> dict[str, list[dict[str, Any]]]:
    return {split: pq.read_table(folder / f"{name}_{split}.parquet").to_pylist() for split in ("train", "test")}


def test_a_csv_of_odd_columns_becomes_files_that_pass_the_check(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    """One question stands three times, once with another answer; one has no answer, one is empty."""
    table, template, reward = (tmp_path / name for name in ("t.csv", "prompt.txt", "mine.py"))
    lines = [f'"{n}, and one more?",{n + 1},{n % 3}' for n in range(10)]
    lines += ['"0, and one  more?",1,0', '"0, and one more?",2,0', '"nothing",,0', '" ",7,0']
    table.write_text("\n".join(['"Frage (de)",Lösung!,"level, 1-5"', *lines]) + "\n", encoding="utf-8")
    template.write_text("Q: {question}\nThink, then say {x}.")
    reward.write_text("def reward(solution_str, ground_truth):\n    return float(ground_truth in solution_str)\n")
    columns = ["--question", "Frage (de)", "--answer", "Lösung!", "--keep", "level, 1-5"]
    options = [*columns, "--name", "mine", "--test-rows", 3, "--template", template, "--out", tmp_path]
    assert build("--from", table, *options) == 0
    printed = capsys.readouterr().out
    for reason in ("with another answer", "empty answer", "empty problem"):
        assert any(" 1 left out" in line and reason in line for line in printed.splitlines())
    rows = rows_of(tmp_path, "mine")
    assert [len(rows["train"]), len(rows["test"])] == [7, 3]
    questions = [row["extra_info"]["raw_problem"] for row in rows["train"] + rows["test"]]
    assert sorted(questions) == [f"{n}, and one more?" for n in range(10)]
    for row in rows["train"]:
        n = int(row["extra_info"]["raw_problem"].split(",")[0])
        assert row["data_source"] == "mine"
        assert row["reward_model"]["ground_truth"] == str(n + 1)
        assert row["prompt"] == [{"role": "user", "content": f"Q: {n}, and one more?\nThink, then say {{x}}."}]
        assert (row["extra_info"]["level, 1-5"], row["extra_info"]["split"]) == (str(n % 3), "train")
    files = [str(tmp_path / f"mine_{split}.parquet") for split in ("train", "test")]
    assert main(["data", "check", *files, "--reward", str(reward)]) == 0
    assert main(["data", "check", *files]) == 1
    assert "error: all rows, data_source: mine, 7 rows: no rule of rpg scores it" in capsys.readouterr().out


def test_gsm8k_takes_the_number_behind_the_mark(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    folder = tmp_path / "main"
    folder.mkdir()
    worked = {"train": ["He has 2*3=<<2*3=6>>6.\n#### 6", "So\n#### 1,200", "no mark"], "test": ["#### -4"]}
    for split, answers in worked.items():
        lines = [json.dumps({"question": f"{split} {n}?", "answer": one}) for n, one in enumerate(answers)]
        (folder / f"{split}-00000-of-00002.jsonl").write_text("\n".join(lines))
    assert build("gsm8k", "--from", folder, "--out", tmp_path) == 0
    assert "1 left out: answer is not an integer" in capsys.readouterr().out
    rows = rows_of(tmp_path, "gsm8k")
    assert [row["reward_model"]["ground_truth"] for row in rows["train"] + rows["test"]] == ["6", "1200", "-4"]


TRAIN = [(f"What is {n} + 30?", str(n + 30)) for n in range(10)]
LINES = [json.dumps({"Q": question, "A": answer}).encode() for question, answer in TRAIN]


def write_splits(folder: Path, train: list[tuple[Any, str]], test: list[tuple[Any, str]]) -> Path:
    folder.mkdir()
    for split, rows in (("train", train), ("test", test)):
        lines = [json.dumps({"Q": question, "A": answer}) + "\n" for question, answer in rows]
        (folder / f"{split}.jsonl").write_text("".join(lines) or "\n")
    return folder


def test_a_test_question_leaves_training_in_any_unicode_form(tmp_path: Path, capsys) -> None:
    trained, tested = "Is 5 - 3 caf\u00e9s?", "\ufeffIs\u00a05  \u2212\u200b 3 cafe\u0301s? "
    chat = [{"role": "system", "content": "Add."}, {"role": "user", "content": "1?"}]
    folder = write_splits(tmp_path / "in", [*TRAIN, (trained, "2")], [(tested, "2"), (chat, "1"), ("2?", "2")])
    assert build("--from", folder, *QA, "--name", "n", "--out", tmp_path) == 0
    assert [len(rows) for rows in rows_of(tmp_path, "n").values()] == [10, 3]
    printed = capsys.readouterr().out
    assert "1 left out: repeats an earlier problem" in printed
    assert "system messages are left out (1, the first in 1 rows: 'Add.')" in printed
    assert "split test; most frequent answer '2': 67%" in printed


def test_sizes_draw_by_the_seed_and_keep_the_order(tmp_path: Path, capsys) -> None:
    folder = write_splits(tmp_path / "in", TRAIN, [(f"Test: {question}", answer) for question, answer in TRAIN])
    for name in ("validation.jsonl", "hard.jsonl", "train-2.jsonl.zst"):
        (folder / name).write_bytes(LINES[0])
    for origin in (folder, folder / "train.jsonl"):  # whose test problems are drawn, too
        drawn = []
        for seed in (0, 0, 1):
            sizes = ["--train-size", 4, "--test-size", 5, "--seed", seed]
            assert build("--from", origin, *QA, *sizes, "--name", "n", "--out", tmp_path / str(seed)) == 0
            rows = rows_of(tmp_path / str(seed), "n")
            drawn.append([[row["reward_model"]["ground_truth"] for row in of_split] for of_split in rows.values()])
        for first, again, other, size in zip(*drawn, (4, 5), strict=True):  # training, then test problems
            assert first == again != other
            assert (len(first), first) == (size, sorted(first))
    printed = capsys.readouterr().out
    assert "split validation is not used" in printed
    assert "2 files are not read, as their names tell no split (train, test) or another compression" in printed


@pytest.mark.parametrize(
    ("option", "written"),
    [("GSM8K", "gsm8k/n"), ("math", "MATH/n"), ("Math_DAPO", "math-dapo/n"), ("MATH/other", "MATH/other")],
)
def test_a_rule_is_found_in_any_spelling_and_the_set_stays_the_users(option: str, written: str) -> None:
    args = Namespace(set_name=None, origin="t.csv", question="Q", answer="A", data_source=option, name="n")
    assert table(args).data_source == written


def test_a_file_of_an_earlier_build_beside_a_new_one_is_refused(tmp_path: Path, capsys) -> None:
    """It could have the same problems."""
    options = ["--from", write_splits(tmp_path / "in", TRAIN, TRAIN[:3]), *QA, "--name", "n", "--out", tmp_path]
    assert build(*options) == 0
    before = {path: path.read_bytes() for path in tmp_path.glob("*.parquet")}
    for size, said in ((["--train-size", 0], "n_train.parquet is from an earlier"), (NONE, "no problem to write")):
        assert build(*options, *size) == 2
        assert said in capsys.readouterr().err
    assert {path: path.read_bytes() for path in tmp_path.glob("*.parquet")} == before


def test_a_test_split_without_rows_is_named_and_its_remedy_works(tmp_path: Path, capsys) -> None:
    options = ["--from", write_splits(tmp_path / "in", TRAIN, [("What is 3 + 30?", "")]), *QA, "--name", "n"]
    assert build(*options, "--out", tmp_path) == 0
    assert "no usable test row; the test split is 0 of " in capsys.readouterr().out
    assert build(*options, "--out", tmp_path, "--test-rows", 2) == 0
    assert [len(rows) for rows in rows_of(tmp_path, "n").values()] == [8, 2]


TABLE = b"Q,A\n" + b"".join(b"What is %d + 1?,%d\n" % (n, n + 1) for n in range(10))
SPREADSHEET = TABLE.replace(b",", b";").replace(b"\n", b";;\r\n") + b";;;\r\n"  # empty columns, and an empty row
pq.write_table(pa.table([["1?"], ["1"], ["9"]], ["Q", "A", "A"]), TWINS := pa.BufferOutputStream())
OBJECTS = b"[" + b",".join(LINES) + b"]"


@pytest.mark.parametrize(
    ("name", "content", "count"),
    [
        ("t.csv", b"\xef\xbb\xbf" + SPREADSHEET, 10),
        ("t.tsv", TABLE.replace(b",", b"\t"), 10),
        ("t.csv", TABLE + b'"11?", "12"\n', 11),  # the quotation marks behind the space are none of the answer's
        ("t.csv.gz", gzip.compress(TABLE, mtime=0), 10),
        ("t.json", b'{"version": "1", "data": ' + OBJECTS + b"}", 10),
        ("t.json", b"\n".join([*LINES, b'{"Q": "No answer?"}', b'{"Q": "Another type?", "A": 1.5}']), 11),
        ("part[1]/a.csv", TABLE.replace(b"+ 1", b"+ 2"), 20),
    ],
)
def test_forms_of_a_table(tmp_path: Path, name: str, content: bytes, count: int) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(content)
    if count == 20:
        (tmp_path / "part[1]/b.csv").write_bytes(TABLE)
        (tmp_path / "part[1]/dataset_infos.json").write_text('{"default": {}}')
    origin = tmp_path / name.partition("/")[0]
    assert build("--from", origin, *QA, "--data-source", "MATH", "--name", "t", "--out", tmp_path) == 0
    rows = [row for of_split in rows_of(tmp_path, "t").values() for row in of_split]
    assert len(rows) == count
    assert all(row["reward_model"]["ground_truth"].replace(".", "").isdigit() for row in rows)


@pytest.mark.parametrize(
    ("option", "said"),
    [
        (["--keep", "answer_end"], "has its own answer_end"),  # would end a response's answer
        (["--test-size", 10], "--test-size 10"),
        (["--template", __file__], "--template: has {question} "),
        (["--few-shot", 2, "--template", "ends"], "the answer '10' contains '0'"),  # no response would be read as it
        (["--exclude", "t.csv"], "t.csv: no problem in it to exclude"),  # has not verl's columns
    ],
)
def test_an_impossible_option_is_refused(tmp_path: Path, capsys, monkeypatch, option: list[str], said: str) -> None:
    monkeypatch.chdir(tmp_path)
    Path("t.csv").write_bytes(TABLE)
    Path("ends").write_text("{question} {answer}0")
    assert build("--from", "t.csv", *QA, *option, "--out", tmp_path) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.glob("*.parquet"))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.tsv", b'Q\tA\n1 + 1?\t2\n"2 + 2?\t4\n3 + 3?\t6\n4" + 4?\t8\n', "line 5: "),
        ("t.tsv.gz", gzip.compress(b'Q,A\n"1 + 1?,2\n"2 + 2?",4\n', mtime=0), "line 3: "),
        ("t.csv", TABLE + b"What, then?,1\n", "line 12: 3 values"),
        ("t.csv", TABLE + b"What is\n1 + 2?,3\n", "line 12: 1 values"),
        ("t.csv", TABLE.replace(b"Q,A", b"A,A"), "2 columns are named 'A'"),
        ("t.jsonl", b'{"Q": "1?", "A": "1", "A": "9"}', "2 columns are named 'A'"),
        ("t.parquet", TWINS.getvalue().to_pybytes(), "2 columns are named 'A'"),
        ("t.jsonl", b"\n".join([*LINES, b'{"Q": ']), "row 9: this or the next row"),
        ("t.json", b'[{"Q": "1?", "A": "1", "K": 1}, {"Q": "2?", "A": "2", "K": "x"}]', "--keep K: its values have"),
        ("t.json", b'["1?", "2?"]', "'1?' has no column names"),
        ("t.json", b'{"test": [{"Q": "1?", "A": "1"}], "train": [{"Q": "2?", "A": "2"}]}', "has test and train"),
    ],
)
def test_what_a_file_needs_is_said(tmp_path: Path, capsys, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    keep = ["--keep", "K"] if b'"K"' in content else []
    assert build("--from", tmp_path / name, *QA, *keep, "--out", tmp_path) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.glob("t_*.parquet"))


def test_a_folder_of_save_to_disk_is_not_ready_but_can_be_built_from(tmp_path):
    rows = [{"Q": question, "A": answer} for question, answer in TRAIN]
    datasets.Dataset.from_list(rows).save_to_disk(str(folder := tmp_path / "mine"))
    assert main(["data", "check", str(folder)]) == 1
    assert build("--from", folder, *QA, "--name", "n", "--test-rows", 2, "--out", tmp_path) == 0
    assert [len(rows) for rows in rows_of(tmp_path, "n").values()] == [8, 2]
