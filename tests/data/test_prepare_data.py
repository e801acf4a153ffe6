"""scripts/prepare_data.sh from local copies: all files, resumed, forced, and messages on failure."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.builders.published_files import AIME24, FLAT, dapo_problem, dapo_row, write_rows

ROOT = Path(__file__).parents[2]
FILES = {*(f"{name}.parquet" for name in FLAT), "dapo-math-17k-eng.parquet"}

pytestmark = pytest.mark.full


def prepare(tmp_path: Path, *options: str) -> subprocess.CompletedProcess[str]:
    environment = {
        **os.environ,
        "PYTHON": sys.executable,
        "FROM_DIR": str(tmp_path / "in"),
        "DATA_DIR": str(tmp_path / "out"),
        "HF_HUB_OFFLINE": "1",
    }
    command = ["bash", str(ROOT / "scripts" / "prepare_data.sh")]
    return subprocess.run([*command, *options], env=environment, capture_output=True, text=True, timeout=900)


def test_builds_everything_once_and_checks_it(tmp_path: Path) -> None:
    for name, rows in FLAT.items():
        write_rows(tmp_path / "in" / f"{name}.parquet", rows)
    rows = [dapo_row(dapo_problem(n % 30), str(n % 30), "i") for n in range(90)]
    rows.append(dapo_row(AIME24[0]["problem"], "204", "leaked"))
    write_rows(tmp_path / "in" / "dapo-math-17k-eng.parquet", rows)
    first = prepare(tmp_path)
    assert first.returncode == 0, first.stdout + first.stderr
    assert {path.name for path in (tmp_path / "out").iterdir()} == FILES
    assert f"/{len(FILES)}] dapo-math-17k-eng" in first.stdout
    assert "1 left out: in a file of --exclude" in first.stdout
    assert "0 errors, 1 warnings: can be trained on" in first.stdout
    assert pq.read_metadata(tmp_path / "out" / "aime24.parquet").num_rows == 2 * 32

    times = {path.name: path.stat().st_mtime_ns for path in (tmp_path / "out").iterdir()}
    (tmp_path / "out" / "amc23.parquet").unlink()
    second = prepare(tmp_path)
    assert second.returncode == 0
    assert second.stdout.count("is there already") == len(FILES) - 1
    changed = {p.name for p in (tmp_path / "out").iterdir() if times[p.name] != p.stat().st_mtime_ns}
    assert changed == {"amc23.parquet"}
    assert "FROM_DIR=downloads" in prepare(tmp_path, "--help").stderr
