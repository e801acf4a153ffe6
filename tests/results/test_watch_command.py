"""`rpg watch`: what is read while a run writes, time left, and the end."""

import io
import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from rpg.cli import main
from rpg.results.watch_command import Watched, screen


def write_config(directory: Path, steps: int) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    config = {"trainer": {"experiment_name": directory.name, "total_training_steps": steps}}
    (directory / "config.yaml").write_text(yaml.safe_dump(config))


def log(directory: Path, step: int, end: str = "\n") -> None:
    data = {
        "critic/score/mean": step / 10,
        "timing_s/step": 60.0,
        "val-core/toy/acc/mean@1": 0.25,
        "actor/entropy": 1.0,
    }
    with open(directory / "metrics.jsonl", "a") as stream:
        stream.write(json.dumps({"step": step, "data": data}) + end)


def test_a_line_a_run_where_stdout_is_no_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_config(tmp_path / "r", steps=6)
    for step in (1, 2, 3):
        log(tmp_path / "r", step)
    assert main(["watch", "--once", str(tmp_path)]) == 0
    fields = capsys.readouterr().out.split("  ")
    assert fields[:4] == ["r", "3/6, 3 min left", "reward 0.300", "toy accuracy 0.250"]


def test_only_new_lines_are_read_again_and_a_cut_off_one_waits(tmp_path: Path):
    write_config(tmp_path / "r", steps=6)
    log(tmp_path / "r", 1)
    watched = Watched(tmp_path / "r" / "metrics.jsonl")
    assert watched.read()
    assert not watched.read()
    log(tmp_path / "r", 2, end="")
    with open(tmp_path / "r" / "metrics.jsonl", "r+b") as stream:
        stream.truncate(stream.seek(0, 2) - 5)
    assert watched.read()
    assert watched.run is not None
    assert watched.run.last_step == 1


@pytest.mark.parametrize("width", [180, 46])
def test_runs_are_columns_where_they_fit_and_else_lines(tmp_path: Path, width: int):
    all_watched = []
    for number in range(6):
        write_config(tmp_path / f"run{number}", steps=6)
        log(tmp_path / f"run{number}", 1)
        watched = Watched(tmp_path / f"run{number}" / "metrics.jsonl")
        watched.read()
        all_watched.append(watched)
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(screen(all_watched, width, now=0.0))
    text = console.export_text().splitlines()
    assert max(map(len, text)) <= width
    assert all(any(f"run{number}" in line for line in text) for number in range(6))


def test_it_waits_for_the_first_step_and_ends_with_the_last(tmp_path: Path):
    write_config(tmp_path / "r", steps=2)
    command = [sys.executable, "-m", "rpg.cli", "watch", "--every", "0.1", str(tmp_path / "r")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "no step yet" in process.stdout.readline()
        log(tmp_path / "r", 1)
        assert "1/2" in process.stdout.readline()
        log(tmp_path / "r", 2)
        assert "2/2" in process.stdout.readline()
        assert process.wait(20) == 0


def test_ctrl_c_ends_the_watch(tmp_path: Path):
    write_config(tmp_path / "r", steps=2)
    log(tmp_path / "r", 1)
    command = [sys.executable, "-m", "rpg.cli", "watch", str(tmp_path / "r")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(0.2)
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=20)
    assert (process.returncode, errors) == (0, "")
