"""`rpg data check`: accepts what build writes; names row, column and remedy of every corruption."""

import copy
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from corruptions import ROW_CORRUPTIONS, TABLE_CORRUPTIONS, Rows, good_rows
from published_files import FLAT, dapo_problem, dapo_row, write_dapo, write_rows
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from rpg.cli import main
from rpg.data.schema import SCHEMA, Problem, make_row
from rpg.data.template import format_prompt


def check(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> tuple[int, str]:
    code = main(["data", "check", *map(str, arguments)])
    out = capsys.readouterr()
    assert "Traceback" not in out.out + out.err
    return code, out.out


@pytest.mark.parametrize("name", [*FLAT, "dapo-math-17k-eng", "toy"])
def test_accepts_what_build_writes(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    published = FLAT.get(name) or [dapo_row(dapo_problem(n), str(n), "i") for n in range(20)]
    source = [] if name == "toy" else ["--from", str(write_rows(tmp_path / "in" / "p.parquet", published))]
    assert main(["data", "build", name, "--out", str(tmp_path), *source]) == 0
    capsys.readouterr()
    code, out = check(capsys, *sorted(tmp_path.glob("*.parquet")))
    assert code == 0, out
    assert "0 errors, 0 warnings: can be trained on" in out


@pytest.mark.parametrize(
    ("corrupt", "column", "message", "remedy"),
    [pytest.param(*case[1:], id=case[0]) for case in ROW_CORRUPTIONS],
)
def test_corrupt_row(
    corrupt: Callable[[dict], None],
    column: str,
    message: str,
    remedy: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    rows = good_rows()
    corrupt(rows[3])
    code, out = check(capsys, write_rows(tmp_path / "x.parquet", rows, SCHEMA))
    assert code == 1, out
    place = "all rows" if message == "mixed" else "row 3"
    found = [line for line in out.splitlines() if f"error: {place}, {column}: " in line]
    assert len(found) == 1, out
    assert message in found[0]
    after = out.splitlines()[out.splitlines().index(found[0]) + 1]
    assert after.startswith("    -> ")
    assert remedy in after
    assert out.count("error: ") == 1, out  # nothing else is reported for one corruption


@pytest.mark.parametrize(
    ("corrupt", "message", "remedy"), [pytest.param(*case[1:], id=case[0]) for case in TABLE_CORRUPTIONS]
)
def test_corrupt_table(
    corrupt: Callable[[Rows], pa.Table],
    message: str,
    remedy: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = tmp_path / "x.parquet"
    pq.write_table(corrupt(good_rows()), path)
    code, out = check(capsys, path)
    assert code == 1, out
    assert f"error: {message}" in out
    assert remedy in out[out.index(message) :]


def make_file(kind: str, path: Path) -> Path:
    write_rows(path, good_rows(), SCHEMA)
    data = path.read_bytes()
    if kind == "missing":
        path.unlink()
    elif kind == "folder":
        path.unlink()
        path.mkdir()
    elif kind == "empty":
        path.write_bytes(b"")
    elif kind == "text":
        path.write_text("data_source,prompt\n")
    elif kind == "truncated":
        path.write_bytes(data[: len(data) // 2])
    elif kind == "damaged":
        path.write_bytes(data[:8] + bytes(200) + data[208:])
    elif kind == "name":
        return path.rename(path.with_suffix(".pq"))
    return path


@pytest.mark.parametrize(
    ("kind", "message", "remedy"),
    [
        ("missing", "no such file", "rpg data build"),
        ("folder", "not a file", "name the parquet files"),
        ("empty", "not readable as parquet", "again"),
        ("text", "not readable as parquet", "again"),
        ("truncated", "not readable as parquet", "again"),
        ("damaged", "damaged data", "again"),
        ("name", "name ends in '.pq'", "rename to .parquet"),
    ],
)
def test_corrupt_file(kind: str, message: str, remedy: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out = check(capsys, make_file(kind, tmp_path / "x.parquet"))
    assert code == 1
    assert f"error: all rows, file: {message}" in out
    assert remedy in out


def test_two_answers_for_one_problem(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [*good_rows(), copy.deepcopy(good_rows()[2])]
    rows[6]["reward_model"]["ground_truth"] = "77"
    code, out = check(capsys, write_rows(tmp_path / "x.parquet", rows, SCHEMA))
    assert code == 1
    assert "error: row 6, reward_model.ground_truth: '77', but row 2 asks the same" in out


def test_uneven_repeats_of_a_test_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = good_rows("test", repeat=4)
    del rows[9]
    code, out = check(capsys, write_rows(tmp_path / "x.parquet", rows, SCHEMA))
    assert code == 1
    assert "error: row 8, prompt: problem stands there 3 times, most stand 4 times" in out
    assert "warning: row 8, extra_info.index: repeats are numbered 0..3, there are 3" in out


def test_aime_answers_are_in_range(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = good_rows("test", "aime24")
    rows[1]["reward_model"]["ground_truth"] = "1000"
    code, out = check(capsys, write_rows(tmp_path / "x.parquet", rows, SCHEMA))
    assert code == 1
    assert "row 1, reward_model.ground_truth: '1000' is not in 0..999" in out


@pytest.mark.parametrize("test_split", ["test", None])
def test_contamination(test_split: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    train, test = good_rows(), good_rows("test")
    test[4] = copy.deepcopy(train[1])
    test[4]["prompt"][0]["content"] = format_prompt("What is  the 1th prime of train? ")  # spaces do not hide it
    test[4]["extra_info"]["raw_problem"] = None
    for row in test:
        row["extra_info"]["split"] = test_split
    paths = [write_rows(tmp_path / f"{n}.parquet", rows, SCHEMA) for n, rows in enumerate((train, test))]
    code, out = check(capsys, *paths)
    assert code == 1
    assert f"error: row 4, prompt: also row 1 of {paths[0]}" in out
    assert "contamination: build the training file with --exclude" in out
    assert [check(capsys, path)[0] for path in paths] == [0, 0]  # each is fine by itself


def test_overlap_of_two_test_files_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [write_rows(tmp_path / f"{n}.parquet", good_rows("test"), SCHEMA) for n in range(2)]
    code, out = check(capsys, *paths)
    assert code == 0
    assert "6 warnings" in out
    assert check(capsys, paths[0], paths[0])[0] == 1  # the same file twice is a mistake


def test_released_files_are_read_with_warnings(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The published DAPO-Math-17k: text as index, Chinese rows, every problem many times."""
    path = tmp_path / "dapo.parquet"
    write_dapo(path, distinct=24, copies=3)
    code, out = check(capsys, path)
    assert code == 0, out
    assert "72 rows, 24 problems, each 3 times; data_source math_dapo (72); split unknown" in out
    assert "warning: row 0, extra_info.index: '0-0'" in out
    assert "and 67 more of this kind" in out
    assert "not English" in out


def test_counts_of_a_good_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_rows(tmp_path / "x.parquet", good_rows("test", "aime25", repeat=32), SCHEMA)
    code, out = check(capsys, path)
    assert code == 0
    assert "192 rows, 6 problems, each 32 times; data_source aime25 (192); split test; 0 ground truths unusable" in out


def save_tokenizer(folder: Path, chat_template: str | None) -> Path:
    tokenizer = Tokenizer(models.WordLevel({"[UNK]": 0}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    fast = PreTrainedTokenizerFast(tokenizer_object=tokenizer, unk_token="[UNK]")
    fast.chat_template = chat_template
    fast.save_pretrained(folder)
    return folder


@pytest.mark.parametrize(("split", "code", "label"), [("train", 0, "warning"), ("test", 1, "error")])
def test_long_prompts(split: str, code: int, label: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    template = (
        "{% for m in messages %}<user> {{ m.content }} <end> {% endfor %}{% if add_generation_prompt %}<go>{% endif %}"
    )
    tokenizer = save_tokenizer(tmp_path / "model", template)
    rows = [*good_rows(split), make_row(Problem("math-dapo", "word " * 100, "5", split))]
    path = write_rows(tmp_path / "x.parquet", rows, SCHEMA)
    words = len(format_prompt("word " * 100).split()) + 3  # <user>, <end>, <go>
    limit = ["--tokenizer", str(tokenizer), "--max-prompt-length"]
    got, out = check(capsys, path, *limit, str(words - 1))
    assert got == code
    assert f"{label}: row 6, prompt: {words} tokens, over {words - 1}" in out
    assert "raise data.max_prompt_length" in out
    assert out.count(" tokens, over") == 1
    assert "; 1 problems too long" in out
    got, out = check(capsys, path, *limit, str(words))
    assert got == 0
    assert "tokens, over" not in out
    got, out = check(capsys, path, *limit, "3")  # of a training file too: with no row left there is no training
    assert got == 1
    assert "error: all rows, prompt: all 7 rows are over 3 tokens, and verl drops them: nothing is left" in out
    assert main(["data", "check", str(path), "--max-prompt-length", "3"]) == 1
    assert "give --tokenizer" in capsys.readouterr().err


def test_tokenizer_that_cannot_be_used(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_rows(tmp_path / "x.parquet", good_rows(), SCHEMA)
    (tmp_path / "nothing").mkdir()
    code, out = check(capsys, path, "--tokenizer", tmp_path / "nothing")
    assert (code, "no tokenizer" in out) == (1, True)
    code, out = check(capsys, path, "--tokenizer", save_tokenizer(tmp_path / "bare", None))
    assert (code, "no chat template" in out) == (1, True)


def test_there_are_enough_corruptions() -> None:
    assert len(ROW_CORRUPTIONS) + len(TABLE_CORRUPTIONS) >= 25


@pytest.mark.parametrize(
    ("change", "said", "remedy"),
    [
        ({"truth": "025"}, "'025': judge release wants it letter by letter", "write 25"),
        ({"truth": "27.0"}, "'27.0': judge release wants it letter by letter", "write 27"),
        ({"truth": "$1,000$"}, None, None),
        ({"prompt": "What is 2 + 2? Put it within \\boxed{}."}, "asks for \\boxed{}", "judge=verified"),
        ({"prompt": "What is 2 + 2? End with 'Answer: ' and \\boxed{}."}, "another template", "rpg data build"),
    ],
)
def test_what_judge_release_would_call_wrong_is_warned_of(
    change: dict, said: str | None, remedy: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = good_rows()
    if "truth" in change:
        rows[3]["reward_model"]["ground_truth"] = change["truth"]
    else:
        rows[3]["prompt"][0]["content"] = change["prompt"]
        rows[3]["extra_info"]["raw_problem"] = None
    code, out = check(capsys, write_rows(tmp_path / "x.parquet", rows, SCHEMA))
    assert code == 0, out
    found = [line for line in out.splitlines() if "warning: row 3" in line]
    assert len(found) == (0 if said is None else 1), out
    if said is not None and remedy is not None:
        assert said in found[0]
        assert remedy in out.splitlines()[out.splitlines().index(found[0]) + 1]
