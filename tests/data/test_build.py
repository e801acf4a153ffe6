"""The builders against files in each source's published layout."""

import dataclasses
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from rpg.cli import main
from rpg.data import data_command
from rpg.data.check import check_file
from rpg.data.parquet import SCHEMA
from rpg.data.template import format_prompt
from rpg.registry.datasets import BY_NAME, PUBLISHED
from rpg.rewards import JUDGES, compute_score, is_known
from tests.builders.published_files import FLAT, dapo_problem, dapo_row, write_rows


def build(name: str, source: Path, out: Path, *options: str) -> list[dict]:
    """Return the rows of a build, in which `rpg data check` finds nothing."""
    assert main(["data", "build", name, "--from", str(source), "--out", str(out), *options]) == 0
    assert not check_file(out / f"{name}.parquet", judge="verified").diagnostics.groups
    table = pq.read_table(out / f"{name}.parquet")
    assert table.schema.equals(SCHEMA)
    return table.to_pylist()


@pytest.mark.parametrize("name", FLAT)
def test_every_set(name: str, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "published.parquet", FLAT[name])
    rows = build(name, path, tmp_path / "out")
    repeat = BY_NAME[name].repeat
    assert len(rows) == repeat * len(FLAT[name])
    assert [row["extra_info"]["index"] for row in rows] == list(range(repeat)) * len(FLAT[name])
    for row in rows:
        assert row["prompt"] == [{"role": "user", "content": format_prompt(row["extra_info"]["raw_problem"])}]
        assert (row["ability"], row["reward_model"]["style"]) == ("MATH", "rule-lighteval/MATH_v2")
        assert row["extra_info"]["split"] == BY_NAME[name].split
        assert is_known(row["data_source"])
        truth = row["reward_model"]["ground_truth"]
        for judge in JUDGES:
            assert compute_score(row["data_source"], f"Answer: \\boxed{{{truth}}}", truth, judge=judge)["acc"] == 1.0


def test_olympiad_answers_in_lists(tmp_path: Path) -> None:
    rows = build("olympiadbench", write_rows(tmp_path / "o.parquet", FLAT["olympiadbench"]), tmp_path)
    assert [row["reward_model"]["ground_truth"] for row in rows] == ["2", "1, -1"]
    assert rows[1]["extra_info"]["raw_problem"] == "Let $x^2 = 1$.\n\nFind all $x$."


def test_dapo_is_stripped_deduplicated_and_english(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [dapo_row(dapo_problem(n), str(n), f"i{n}") for n in range(12)]  # 0 and 6 are Chinese
    rows += [
        dapo_row(dapo_problem(1) + "\n ", "1", "again"),
        dapo_row(dapo_problem(2), "999", "conflict"),
        dapo_row("  \n", "5", "blank"),
        dapo_row("Null answer?", None, "null"),
        dapo_row("Half?", "1/2", "fraction"),
        dapo_row("A list?", "1,2", "list"),
        dapo_row("A float?", "34.0", "float"),
        dapo_row("A formula?", "$012$", "dollars"),
        dapo_row("A thousand?", "1,000", "comma"),
        dapo_row("Punctuation, full-width\uff0c but English.", "7", "comma"),
    ]
    source = write_rows(tmp_path / "dapo.parquet", rows * 3)
    built = build("dapo-math-17k-eng", source, tmp_path / "out")
    truths = ["1", "2", "3", "4", "5", "7", "8", "9", "10", "11", "34", "12", "1000", "7"]
    assert [row["reward_model"]["ground_truth"] for row in built] == truths
    assert built[0]["extra_info"] == {"index": 0, "raw_problem": dapo_problem(1), "split": "train"}
    assert built[0]["prompt"][0]["content"] == format_prompt(dapo_problem(1))
    report = capsys.readouterr().out
    # 22 rows thrice; 14 kept; the 14 come back twice and the near copy of 1 three times: 28 + 3 = 31
    for line in (
        "66 rows read, 14 problems kept",
        "dapo-math-17k-eng.parquet: 14 rows",
        "31 left out: repeats an earlier problem (first",
        "3 left out: repeats an earlier problem with another answer",
        "6 left out: not English",
        "3 left out: empty problem",
        "3 left out: empty answer",
        "6 left out: answer is not an integer",
        "dapo.parquet, row 13",
    ):
        assert line in report


@pytest.mark.parametrize("kind", ["built", "gsm8k", "math", "qwen"])
def test_excluded_files_are_in_verls_schema(kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    published = write_rows(tmp_path / "raw.parquet", FLAT["olympiadbench"])
    texts = [row["extra_info"]["raw_problem"] for row in build("olympiadbench", published, tmp_path)]
    end = " Let's think step by step and output the final answer within \\boxed{}."  # verl's scripts
    if kind == "qwen":
        end = "\nPlease reason step by step, and put your final answer within \\boxed{}."
    extra = {"question": texts} if kind == "gsm8k" else {"split": ["test"] * len(texts)}
    verls = [
        {"prompt": [{"content": text + end}], "extra_info": {name: values[n] for name, values in extra.items()}}
        for n, text in enumerate(texts)
    ]
    built, verl = tmp_path / "olympiadbench.parquet", write_rows(tmp_path / "verl.parquet", verls)
    excluded = built if kind == "built" else verl
    rows = [dapo_row(text, "5", "i") for text in [*texts, "Is that all?"]]
    train = build("dapo-math-17k-eng", write_rows(tmp_path / "d.parquet", rows), tmp_path, "--exclude", str(excluded))
    assert [row["extra_info"]["raw_problem"] for row in train] == ["Is that all?"]
    assert f"{excluded}: {len(texts)} problems" in capsys.readouterr().out


def test_through_datasets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> None:
    """`datasets` loads a folder like a repository of the hub: same call, same streaming."""
    source, rows = PUBLISHED["minerva-math"], FLAT["minerva-math"]
    file = write_rows(tmp_path / f"repository/{source.hub_split}-00000-of-00001.parquet", rows)
    local = dataclasses.replace(source, repository=str(tmp_path / "repository"))
    monkeypatch.setitem(data_command.PUBLISHED, source.name, local)
    assert main(["data", "build", source.name, "--out", str(tmp_path / "out")]) == 0
    assert pq.read_metadata(tmp_path / "out/minerva-math.parquet").num_rows == len(rows)
    write_rows(file.with_name("validation.parquet"), rows)
    file.rename(file.with_name("train.parquet"))
    assert main(["data", "build", source.name, "--out", str(tmp_path / "other")]) == 2
    assert "has no split test, only train, validation" in capsys.readouterr().err
