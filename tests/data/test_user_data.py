"""`rpg data build --from FILE`: custom tables, and gsm8k and math in their published schema."""

import gzip
import json
from pathlib import Path
from typing import Any

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rpg.cli import main
from rpg.rewards import is_known

QUESTION, ANSWER, LEVEL = "Frage (de)", "Lösung!", "level, 1-5"
OWN = ["--question", QUESTION, "--answer", ANSWER]


def write_csv(path: Path, count: int = 10) -> Path:
    """Write `count` questions, one of them three times (once with another answer), one without answer, one empty."""
    rows = [f'"{n}, and one more?",{n + 1},{n % 3}' for n in range(count)]
    rows += ['"0, and one  more?",1,0', '"0, and one more?",2,0', '"nothing",,0', '" ",7,0']
    path.write_text("\n".join([f'"{QUESTION}",{ANSWER},"{LEVEL}"', *rows]) + "\n", encoding="utf-8")
    return path


def build(*arguments: object) -> int:
    return main(["data", "build", *map(str, arguments)])


def rows_of(folder: Path, name: str) -> dict[str, list[dict[str, Any]]]:
    return {split: pq.read_table(folder / f"{name}_{split}.parquet").to_pylist() for split in ("train", "test")}


def questions(rows: list[dict[str, Any]]) -> list[str]:
    return [row["extra_info"]["raw_problem"] for row in rows]


def test_a_csv_of_odd_columns_becomes_files_that_pass_the_check(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    table, template, reward = write_csv(tmp_path / "t.csv"), tmp_path / "prompt.txt", tmp_path / "mine.py"
    template.write_text("Q: {question}\nThink, then say {x}.")
    reward.write_text("def reward(response, answer):\n    return float(answer in response)\n")
    options = [*OWN, "--name", "mine", "--test-rows", 3, "--template", template, "--keep", LEVEL, "--out", tmp_path]
    assert build("--from", table, *options) == 0
    printed = capsys.readouterr().out
    for count, reason in ((1, "with another answer"), (1, "empty answer"), (1, "empty problem")):
        assert any(f" {count} left out" in line and reason in line for line in printed.splitlines())
    rows = rows_of(tmp_path, "mine")
    assert [len(rows["train"]), len(rows["test"])] == [7, 3]
    assert sorted(questions(rows["train"] + rows["test"])) == [f"{n}, and one more?" for n in range(10)]
    for row in rows["train"]:
        n = int(row["extra_info"]["raw_problem"].split(",")[0])
        assert row["data_source"] == "mine"
        assert row["reward_model"]["ground_truth"] == str(n + 1)
        assert row["prompt"] == [{"role": "user", "content": f"Q: {n}, and one more?\nThink, then say {{x}}."}]
        assert row["extra_info"][LEVEL] == str(n % 3)
        assert row["extra_info"]["split"] == "train"
    files = [str(tmp_path / f"mine_{split}.parquet") for split in ("train", "test")]
    assert main(["data", "check", *files, "--reward", str(reward)]) == 0
    capsys.readouterr()
    assert main(["data", "check", *files]) == 1  # nothing of ours scores it
    printed = capsys.readouterr().out
    assert "error: all rows, data_source: mine, 7 rows: no rule of rpg scores it" in printed
    assert "-> give --reward FILE" in printed
    assert "2 files, 2 errors, 0 warnings" in printed
    assert main(["data", "check", *files, "--reward", str(tmp_path / "no.py")]) == 2


def test_the_split_follows_the_seed(tmp_path: Path) -> None:
    table, splits = write_csv(tmp_path / "t.csv"), []
    for number, seed in enumerate((0, 0, 1)):
        options = ["--seed", seed, "--train-size", 5, "--out", tmp_path / str(number)]
        assert build("--from", table, *OWN, *options) == 0
        rows = rows_of(tmp_path / str(number), "t")
        assert [len(rows["train"]), len(rows["test"])] == [5, 1]
        splits.append(questions(rows["test"]))
    assert splits[0] == splits[1] != splits[2]


def test_a_folder_has_its_own_test_split_whose_questions_leave_training(tmp_path: Path) -> None:
    for split, numbers in (("train", range(5)), ("test", range(4, 6))):
        lines = [json.dumps({"q": f"what is {n}?", "a": n}) for n in numbers]
        (tmp_path / f"{split}.jsonl").write_text("\n".join(lines))
    options = ["--from", tmp_path, "--question", "q", "--answer", "a", "--name", "x", "--out", tmp_path / "out"]
    assert build(*options) == 0
    rows = rows_of(tmp_path / "out", "x")
    assert [len(rows["train"]), len(rows["test"])] == [4, 2]
    assert not set(questions(rows["train"])) & set(questions(rows["test"]))


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--question", "Frage", "--answer", ANSWER], ["'Frage'", f"{QUESTION!r}"]),
        ([*OWN, "--keep", "lvl"], ["'lvl'"]),
        ([*OWN, "--keep", "answer_end"], ["has its own answer_end"]),  # would end a response's answer
        ([*OWN, "--test-size", 10], ["--test-size", "10"]),
        ([*OWN, "--name", "a/b"], ["--name", "a/b"]),
        (["--question", QUESTION], ["--answer"]),
        ([*OWN, "--template", Path(__file__).with_name("test_build.py")], ["--template: has {question} 0 times"]),
    ],
)
def test_refusals_name_option_and_value(
    tmp_path: Path, capsys: pytest.CaptureFixture, options: list, expected: list[str]
) -> None:
    assert build("--from", write_csv(tmp_path / "t.csv"), *options, "--out", tmp_path / "out") == 2
    message = capsys.readouterr().err
    assert all(text.strip("'") in message for text in expected)
    assert not (tmp_path / "out").exists()


def test_gsm8k_takes_the_number_behind_the_mark(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    folder = tmp_path / "main"
    folder.mkdir()
    worked = {"train": ["He has 2*3=<<2*3=6>>6.\n#### 6", "So\n#### 1,200", "no mark"], "test": ["#### -4"]}
    for split, answers in worked.items():
        lines = [json.dumps({"question": f"{split} {n}?", "answer": one}) for n, one in enumerate(answers)]
        (folder / f"{split}-00000-of-00001.jsonl").write_text("\n".join(lines))
    assert build("gsm8k", "--from", tmp_path, "--out", tmp_path) == 0
    assert "1 left out: no final answer" in capsys.readouterr().out
    rows = rows_of(tmp_path, "gsm8k")
    assert [row["reward_model"]["ground_truth"] for row in rows["train"] + rows["test"]] == ["6", "1200", "-4"]
    assert main(["data", "check", *(str(tmp_path / f"gsm8k_{split}.parquet") for split in rows)]) == 0


def test_math_takes_the_boxed_answer_and_a_name(tmp_path: Path) -> None:
    solutions = [
        r"first \boxed{1}, no: $\boxed{\frac{1}{2}}$.",
        r"$x=\boxed{\text{(A)}}$",
        r"First \boxed{1} was guessed; it is \fbox{7}",
        r"So $x = \boxed 2$.",
    ]
    columns = {"level": "Level 5", "type": "Algebra"}
    rows = [{"problem": f"find {n}", "solution": one, **columns} for n, one in enumerate(solutions)]
    (tmp_path / "math.json").write_text(json.dumps(rows))
    assert build("math", "--from", tmp_path / "math.json", "--name", "x", "--test-rows", 0, "--out", tmp_path) == 0
    assert not list(tmp_path.glob("math_*"))
    written = pq.read_table(tmp_path / "x_train.parquet").to_pylist()
    assert [row["reward_model"]["ground_truth"] for row in written] == [r"\frac{1}{2}", r"\text{(A)}", "7", "2"]
    assert main(["data", "check", str(tmp_path / "x_train.parquet")]) == 0


def test_two_sets_of_one_rule_stay_two(tmp_path: Path) -> None:
    """The data_source, under which verl logs an accuracy, has the set's name beside the rule."""
    for name in ("a", "b"):
        table = tmp_path / f"{name}.csv"
        table.write_text(f"q,s\nFirst of {name}?,3\nSecond of {name}?,3\n")
        options = ["--question", "q", "--answer", "s", "--data-source", "gsm8k", "--test-size", 1, "--out", tmp_path]
        assert build("--from", table, *options) == 0
        rows = rows_of(tmp_path, name)
        assert [row["data_source"] for row in rows["train"] + rows["test"]] == [f"gsm8k/{name}"] * 2
        assert is_known(f"gsm8k/{name}")
    assert main(["data", "check", *(str(tmp_path / f"{name}_test.parquet") for name in ("a", "b"))]) == 0


def write_jsonl(path: Path, *rows: tuple[str, str] | bytes) -> Path:
    """Write a question and an answer a line, or bytes as they are."""
    path.parent.mkdir(exist_ok=True)
    lines = [row if isinstance(row, bytes) else json.dumps({"Q": row[0], "A": row[1]}).encode() for row in rows]
    path.write_bytes(b"".join(line + b"\n" for line in lines))
    return path


QA = ["--question", "Q", "--answer", "A", "--data-source", "MATH"]
TRAIN = [(f"What is {n} + 30?", str(n + 30)) for n in range(10)]


@pytest.mark.parametrize(
    ("trained", "tested"),
    [
        ("Count the caf\u00e9s.", "Count the cafe\u0301s."),
        ("What is 5 - 3?", "\ufeffWhat\u00a0is 5  \u2212\u200b 3? "),
    ],
)
def test_a_question_in_another_unicode_form_is_the_same(tmp_path: Path, capsys, trained: str, tested: str) -> None:
    write_jsonl(tmp_path / "in" / "train.jsonl", *TRAIN, (trained, "2"))
    write_jsonl(tmp_path / "in" / "test.jsonl", (tested, "2"))
    assert build("--from", tmp_path / "in", *QA, "--name", "n", "--out", tmp_path) == 0
    assert len(questions(rows_of(tmp_path, "n")["train"])) == 10
    assert "1 left out: repeats an earlier problem" in capsys.readouterr().out


@pytest.mark.parametrize("test_rows", [[b""], [("What is 3 + 30?", "")]])
def test_a_test_split_without_rows_is_named_and_its_remedy_works(tmp_path: Path, capsys, test_rows: list) -> None:
    write_jsonl(tmp_path / "in" / "train.jsonl", *TRAIN)
    write_jsonl(tmp_path / "in" / "test.jsonl", *test_rows)
    options = ["--from", tmp_path / "in", *QA, "--name", "n", "--out", tmp_path]
    assert build(*options) == 0
    printed = capsys.readouterr().out
    assert "no usable test row: 0 of the others are drawn" in printed
    assert build(*options, "--test-rows", 2) == 0
    assert [len(rows) for rows in rows_of(tmp_path, "n").values()] == [8, 2]


LINES = [json.dumps({"Q": question, "A": answer}).encode() for question, answer in TRAIN]
TABLE = b"Q,A\n" + b"".join(b"What is %d + 1?,%d\n" % (n, n + 1) for n in range(10))
SPREADSHEET = TABLE.replace(b",", b";").replace(b"\n", b";;\r\n") + b";;;\r\n"  # empty columns, and an empty row
OBJECTS = b"[" + b",".join(LINES) + b"]"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", b"\xef\xbb\xbf" + SPREADSHEET),
        ("t.tsv", TABLE.replace(b",", b"\t")),
        ("t.csv.gz", gzip.compress(TABLE, mtime=0)),
        ("t.jsonl.gz", gzip.compress(b"\n".join(LINES), mtime=0)),
        ("t.json", b'{"version": "1", "data": ' + OBJECTS + b"}"),
        ("t.json", b"\n".join([*LINES, b'{"Q": "Another type?", "A": 1.5}'])),
        ("part/a.jsonl", b"\n".join(LINES)),
    ],
)
def test_forms_of_a_table(tmp_path: Path, name: str, content: bytes) -> None:
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_bytes(content)
    if name.startswith("part"):
        (tmp_path / "part/b.csv").write_bytes(TABLE)
    origin = tmp_path / name.partition("/")[0]
    assert build("--from", origin, *QA, "--name", "t", "--test-rows", 2, "--out", tmp_path) == 0
    rows = rows_of(tmp_path, "t")
    assert len(rows["train"] + rows["test"]) in (10, 11, 20)
    assert all(row["reward_model"]["ground_truth"].replace(".", "").isdigit() for row in rows["train"])


@pytest.mark.parametrize("splits", [("train",), ("train", "test")])
def test_a_folder_of_save_to_disk(tmp_path: Path, splits: tuple[str, ...]) -> None:
    held = {split: datasets.Dataset.from_list([{"Q": f"{split} {n}?", "A": n} for n in range(20)]) for split in splits}
    (held["train"] if len(held) == 1 else datasets.DatasetDict(held)).save_to_disk(tmp_path / "saved")
    assert build("--from", tmp_path / "saved", *QA, "--out", tmp_path) == 0
    assert [len(rows) for rows in rows_of(tmp_path, "saved").values()] == ([18, 2] if len(held) == 1 else [20, 20])


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("t.csv", TABLE + b"caf\xe9,3\n", "0xe9"),
        ("t.csv", TABLE.decode().encode("utf-16"), "iconv"),
        ("t.csv", b"", "has no rows"),
        ("t.csv", b"Q,A\nWhat, then?,1\n", "row 0: more values than columns"),
        ("t.csv", TABLE + b"What, then?,1\n", "line 12"),
        ("t.jsonl", b"\n".join([*LINES, b'{"Q": ']), "row 10"),
        # spellings or tests beside each other are not the parts of one answer
        ("t.jsonl", b'{"Q": "1?", "A": ["Denver", "The Broncos"]}', "is a list; write it as text"),
        ("t.jsonl", b'{"Q": "1?", "A": true}', "is a bool"),
        ("t.json", b'{"Q": {"0": "1?"}, "A": {"0": "1"}}', "orient='records'"),
    ],
)
def test_what_a_file_needs_is_said(tmp_path: Path, capsys, name: str, content: bytes, said: str) -> None:
    (tmp_path / name).write_bytes(content)
    assert build("--from", tmp_path / name, *QA, "--out", tmp_path) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.glob("*.parquet"))


def test_a_build_says_the_most_frequent_answer(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    write_jsonl(tmp_path / "in" / "train.jsonl", *TRAIN)
    write_jsonl(tmp_path / "in" / "test.jsonl", *((f"{n}?", "1" if n else "7") for n in range(4)))
    assert build("--from", tmp_path / "in", *QA, "--name", "n", "--out", tmp_path) == 0
    assert "split test; most frequent answer '1': 75%" in capsys.readouterr().out


def test_numbers_of_single_precision_are_those_that_were_written(tmp_path: Path) -> None:
    answers = pa.array([0.1, 2.5, 7, 123456792.0], pa.float32())
    pq.write_table(pa.table({"Q": ["a?", "b?", "c?", "d?"], "A": answers}), tmp_path / "t.parquet")
    assert build("--from", tmp_path / "t.parquet", *QA, "--name", "n", "--test-rows", 1, "--out", tmp_path) == 0
    truths = [row["reward_model"]["ground_truth"] for rows in rows_of(tmp_path, "n").values() for row in rows]
    assert sorted(truths) == ["0.1", "123456792", "2.5", "7"]
