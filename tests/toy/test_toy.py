"""The toy task: correct sums, disjoint splits, verl's loader; its model, complete or absent; `rpg demo`."""

import json
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from rich.console import Console

from rpg.cli import main
from rpg.data.parquet import SCHEMA, write
from rpg.toy import smollm2, sums
from rpg.toy.demo import show_answers
from rpg.toy.sums import MODEL, toy_problems


def test_files_hold_distinct_problems_of_disjoint_splits_in_the_schema(tmp_path: Path) -> None:
    sums.prepare(tmp_path, Console())
    tables = [pq.read_table(tmp_path / f"toy_{split}.parquet") for split in ("train", "test")]
    assert all(table.schema.equals(SCHEMA) for table in tables)
    train, test = (table.to_pylist() for table in tables)
    problems = [{row["extra_info"]["raw_problem"] for row in rows} for rows in (train, test)]
    assert [len(train), len(test)] == [len(texts) for texts in problems] == [2048, 256]
    assert not problems[0] & problems[1]
    for row in train + test:
        first, second = row["extra_info"]["raw_problem"].removeprefix("What is ").removesuffix("?").split(" + ")
        assert row["reward_model"]["ground_truth"] == str(int(first) + int(second))
        assert row["data_source"] == "toy_sum"


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_files_written_together_are_all_replaced_or_none(tmp_path: Path) -> None:
    problem = next(toy_problems("train", 0, 1))
    paths = [tmp_path / "one" / "a.parquet", tmp_path / "b.parquet"]
    write({path: [problem] for path in paths})
    before = contents(tmp_path / "one")
    with pytest.raises(pa.ArrowTypeError):
        write({paths[0]: [problem] * 2, paths[1]: [replace(problem, split=7)]})  # type: ignore[arg-type]
    assert contents(tmp_path / "one") == before
    assert {path for path in tmp_path.rglob("*") if path.is_file()} == set(paths)


def test_the_model_is_copied_once_and_whole(tmp_path: Path) -> None:
    left = tmp_path / ".model.partial"  # as SIGKILL leaves it
    left.mkdir()
    (left / "model.safetensors").write_bytes(b"half")
    for _ in range(2):
        assert main(["demo", "--model", "toy", "--prepare-only", "--dir", str(tmp_path)]) == 0
        assert contents(tmp_path / "model") == contents(MODEL)
        assert {path.name for path in tmp_path.iterdir()} == {"model", "toy_train.parquet", "toy_test.parquet"}


@pytest.mark.parametrize(("accuracies", "code"), [((0.3, None, 0.5, 0.7), 0), ((0.3, 0.5, 0.4), 1), ((0.3, 0.2), 0)])
def test_the_gain_of_three_validations_is_judged(accuracies, code, tmp_path, monkeypatch, capsys):
    """A run of these accuracies, one per step, in place of the real one."""
    metrics = tmp_path / "demo" / "metrics.jsonl"
    others = {"val-core/toy_sum/acc/best@4/mean": 0.9, "val-aux/toy_sum/score/mean@4": 0.8}

    def start(name: str, overrides: list[str]) -> int:
        assert overrides[-1] == "data.seed=3"
        metrics.parent.mkdir()
        validations = [{} if one is None else {"val-core/toy_sum/acc/mean@4": one} for one in accuracies]
        records = [{"step": step, "data": {**others, **values}} for step, values in enumerate(validations)]
        metrics.write_text("".join(json.dumps(record) + "\n" for record in records))
        return 0

    monkeypatch.setattr("rpg.toy.demo_command.start", start)
    assert main(["demo", "--model", "toy", "--dir", str(tmp_path), "data.seed=3"]) == code
    assert (tmp_path / "demo" / "panels.png").stat().st_size > 1000
    printed = capsys.readouterr().out
    curve = (f"{step}: {one:.3f}" for step, one in enumerate(accuracies) if one)
    assert f"by step: {' '.join(curve)}\n" in printed
    assert ("+0.400" in printed) == (accuracies[-1] == 0.7)


def test_an_answer_may_have_any_character(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "0.jsonl").write_text('{"input": "p", "gts": "4", "output": "4 \u2028", "acc": 1}\n', encoding="utf-8")
    show_answers(tmp_path, Console())
    assert "4 ✓" in capsys.readouterr().out


def test_smollm2s_problems_are_once_each_and_a_pair_is_in_one_split() -> None:
    found = list(smollm2.problems())
    assert len({problem.text for problem in found}) == len(found) == 21 * 21 - 1  # but the example
    splits: dict[frozenset, set[str]] = {}
    for problem in found:
        first, _, second = problem.text.split()
        assert int(problem.ground_truth) == int(first) + int(second)
        splits.setdefault(frozenset((first, second)), set()).add(problem.split)
    assert {*map(len, splits.values())} == {1}
    assert {problem.split for problem in found} == {"train", "test"}
