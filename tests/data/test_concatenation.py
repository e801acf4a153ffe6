"""Files that verl concatenates: what `datasets` refuses is found from the schemas; tests/checks asks before a run."""

import json
from pathlib import Path

import datasets
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rpg.cli import main
from rpg.data.concatenation import misfits

TEXT, LONG, NUMBER, NULL = pa.string(), pa.large_string(), pa.int64(), pa.null()
INNER = [pa.struct([("i", NUMBER), ("level", kind)]) for kind in (TEXT, LONG, NUMBER, NULL)]
FEWER, OTHERS = pa.struct([("i", NUMBER)]), pa.struct([("i", NUMBER), ("kind", TEXT)])
TYPES = [TEXT, LONG, NUMBER, pa.float64(), NULL, pa.bool_(), pa.list_(TEXT), pa.large_list(TEXT), *INNER, FEWER, OTHERS,
         pa.list_(INNER[0]), pa.list_(INNER[2]), pa.list_(FEWER)]  # fmt: skip


@pytest.fixture(scope="module")
def loaded(tmp_path_factory) -> list[tuple[Path, datasets.Dataset]]:
    """Return a file of two nulls per type with what load_dataset makes of it, as in verl; and each once more."""
    folder = tmp_path_factory.mktemp("types")

    def load(name: str, kind: pa.DataType) -> tuple[Path, datasets.Dataset]:
        path = folder / f"{name}.parquet"
        pq.write_table(pa.Table.from_pylist([{}, {}], schema=pa.schema([("x", kind)])), path)
        return path, datasets.load_dataset("parquet", data_files=str(path), cache_dir=str(folder / "cache"))["train"]

    return [load(f"{number}_{part}", kind) for part in range(2) for number, kind in enumerate(TYPES)]


@pytest.mark.parametrize("number", range(len(TYPES)), ids=map(str, TYPES))
def test_the_schemas_decide_as_verl_does(loaded, number: int) -> None:
    """As in verl: concatenate_datasets of two files."""
    path, rows = loaded[number]
    for other, others in loaded[len(TYPES) :]:
        found = misfits([(file, pq.read_schema(file)) for file in (path, other)])
        try:
            datasets.concatenate_datasets([rows, others])
            assert not found
        except (ValueError, AttributeError, TypeError):
            [misfit] = found
            assert misfit.column.startswith("x")
            assert str(path) in str(misfit)


def own_files(folder: Path) -> list[Path]:
    """Two training files with --keep level: text from a CSV, numbers from JSONL."""
    (folder / "a.csv").write_text("q,s,level\n" + "".join(f"What is {n}?,{n},{n}\n" for n in range(20)))
    rows = [{"q": f"And what is {n}?", "s": str(n), "level": n} for n in range(20)]
    (folder / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    options = ["--question", "q", "--answer", "s", "--keep", "level", "--data-source", "gsm8k", "--test-rows", "0"]
    for name in ("a.csv", "b.jsonl"):
        assert main(["data", "build", "--from", str(folder / name), *options, "--out", str(folder)]) == 0
    return [folder / f"{name}_train.parquet" for name in "ab"]


def said(files: list[Path]) -> str:
    return f"column extra_info.level is int64, and string in {files[0]}: verl cannot concatenate the two"


def test_data_check_reads_the_files_of_a_split_together(tmp_path: Path, capsys) -> None:
    files = own_files(tmp_path)
    assert [main(["data", "check", str(file)]) for file in files] == [0, 0]
    capsys.readouterr()
    assert main(["data", "check", *map(str, files)]) == 1
    printed = capsys.readouterr().out
    assert f"error: all rows, extra_info.level: {said(files)}" in printed
    assert "2 files, 1 errors" in printed


def test_a_training_and_a_test_file_may_differ(tmp_path: Path, capsys) -> None:
    train, other = own_files(tmp_path)
    rows = pq.read_table(other).to_pylist()
    for row in rows:
        row["extra_info"]["split"] = "test"
    pq.write_table(pa.Table.from_pylist(rows, schema=pq.read_schema(other)), other)
    assert main(["data", "check", str(train), str(other)]) == 0
