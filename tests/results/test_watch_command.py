"""`rpg watch`: reading while a run writes, time left, and the end."""

import io
import json
import subprocess
import sys
from pathlib import Path

import pytest
from rich.console import Console

from rpg.cli import main
from rpg.files.lock import RUN, take
from rpg.results.watching import Watched, screen
from tests.builders.runs import config, write_run


def write_config(directory: Path, steps: int) -> None:
    write_run(directory, [], config(directory.name, steps=steps))
    (directory / "metrics.jsonl").unlink()


def log(directory: Path, step: int) -> None:
    values = {"critic/score/mean": step / 10, "timing_s/step": 60.0, "val-core/toy/acc/mean@1": 0.25}
    with open(directory / "metrics.jsonl", "a") as stream:
        stream.write(json.dumps({"step": step, "data": values}) + "\n")


def test_only_new_lines_are_read_again_and_a_cut_off_one_waits(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_config(tmp_path / "r", steps=6)
    for step in (1, 2, 3):
        log(tmp_path / "r", step)
    assert main(["watch", "--once", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == "r  3/6, 3 min left  reward 0.300  toy accuracy 0.250  step (s) 60.0"
    watched = Watched(tmp_path / "r" / "metrics.jsonl")
    assert watched.read()
    assert not watched.read()
    with open(tmp_path / "r" / "metrics.jsonl", "r+b") as stream:
        stream.truncate(stream.seek(0, 2) - 5)
    assert watched.read()
    assert watched.run.last_step == 2


@pytest.mark.parametrize("width", [180, 46])
def test_every_run_is_shown_in_any_width(tmp_path: Path, width: int):
    for number in range(6):
        write_config(tmp_path / f"run{number}", steps=6)
        log(tmp_path / f"run{number}", 1)
    all_watched = [Watched(tmp_path / f"run{number}" / "metrics.jsonl") for number in range(6)]
    assert all(watched.read() for watched in all_watched)
    console = Console(width=width, record=True, file=io.StringIO())
    console.print(screen(all_watched, width))
    text = console.export_text().splitlines()
    assert max(map(len, text)) <= width
    assert all(any(f"run{number}" in line for line in text) for number in range(6))


def test_eighty_columns_break_no_word_and_name_every_run(tmp_path: Path):
    name = "rpg_cpu_urkl1e-4_rf_clip_ppo_0.2_0.28-custom-kl_coef=0.1,kl_scope=response,mode=fixed"
    values = dict.fromkeys(
        ["critic/score/mean", "actor/entropy", "actor/rpg_kl", "actor/ppo_kl", "actor/pg_clipfrac", "timing_s/step",
         "response_length/mean", "perf/max_memory_allocated_gb"], 0.125,
    )  # fmt: skip
    validated = {**values, "val-core/reasoning-gym/chain_sum/acc/mean@8": 0.5}
    all_watched = []
    for directory, last in (("a", values), ("b", validated)):  # two seeds of one script have one name
        write_run(tmp_path / directory, [(2, last)], config(name, steps=6))
        all_watched.append(Watched(tmp_path / directory / "metrics.jsonl"))
        assert all_watched[-1].read()
    for some in (all_watched[1:], all_watched):
        console = Console(width=80, record=True, file=io.StringIO())
        console.print(screen(some, 80))
        text = console.export_text()
        assert max(map(len, text.splitlines())) <= 80
        assert {"reward", "accuracy", "entropy", "clipped", "response", "length"} <= set(text.split())
        assert (name in text.replace("\n", "")) == (len(some) == 1)
    assert {"a  2/6", "b  2/6"} <= {line.partition(",")[0] for line in text.splitlines()}


def test_a_run_that_no_process_holds_is_interrupted(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    write_config(tmp_path / "r", steps=6)
    log(tmp_path / "r", 2)
    lock = take(tmp_path / "r" / RUN)
    for state in ("2/6, 4 min left", "2/6, interrupted at step 2"):
        assert main(["watch", "--once", str(tmp_path)]) == 0
        assert f"r  {state}  reward" in capsys.readouterr().out
        lock.release()


def test_it_waits_for_a_run_and_ends_with_its_last_step(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main(["watch", "--once", str(tmp_path / "r")]) == 2
    assert "no run there yet" in capsys.readouterr().err
    command = [sys.executable, "-m", "rpg.cli", "watch", "--every", "0.1", str(tmp_path / "r")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert "waiting for its start" in process.stderr.readline()
        write_config(tmp_path / "r", steps=2)
        assert "no step yet" in process.stdout.readline()
        for step in (1, 2):
            log(tmp_path / "r", step)
            assert f"{step}/2" in process.stdout.readline()
        assert process.wait(20) == 0
